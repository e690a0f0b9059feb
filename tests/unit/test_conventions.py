"""Rules of the house that no linter knows: each is checked over every file of the project."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import intonaco
from intonaco.version import __version__
from tests.support.documents import ROOT, text_files


def test_the_public_names_are_sorted_and_every_one_of_them_exists():
    assert list(intonaco.__all__) == sorted(intonaco.__all__)
    assert [name for name in intonaco.__all__ if not hasattr(intonaco, name)] == []


def test_importing_the_package_or_asking_for_help_imports_no_torch():
    code = (
        "import sys, intonaco\n"
        "heavy = {'torch', 'diffusers', 'transformers', 'numpy', 'PIL'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "from intonaco.cli import main\n"
        "assert main(['--help']) == 0 and main(['generate', '--help']) == 0\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_changelog_starts_with_unreleased_and_then_this_version():
    headings = re.findall(
        r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE
    )
    assert headings[:2] == ["Unreleased", __version__]


def test_every_error_class_is_met_by_some_test():
    tree = ast.parse((ROOT / "src/intonaco/errors.py").read_text())
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    parents = {
        base.id
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name)
    }
    assert sorted(classes - parents - _names_used_in_tests()) == []


def test_no_file_names_a_folder_of_one_machine():
    private = re.compile(r"(?<![\w.:/~-])/(?:home|root|work|Users)/\w")
    found = [_relative(path) for path in text_files() if private.search(_read(path))]
    assert found == []


def test_code_and_pages_hold_no_tabs_and_no_trailing_spaces():
    untidy = [
        _relative(path)
        for path in text_files()
        if path.suffix in {".py", ".md"} and re.search(r"[ \t]+$|\t", _read(path), re.MULTILINE)
    ]
    assert untidy == []


def _names_used_in_tests() -> set[str]:
    return {name for path in (ROOT / "tests").rglob("*.py") for name in _names_used_in(path)}


def _names_used_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
