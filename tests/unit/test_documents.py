"""What the project says about itself is true: its links, commands and flags exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from intonaco.cli.app import app
from scripts import cli_docs
from tests.support.documents import (
    ROOT,
    anchors,
    code_blocks,
    code_lines,
    local_links,
    markdown_files,
)

README = ROOT / "README.md"
PAGES = markdown_files()
LINK_HOSTS = {"github.com", "keepachangelog.com", "semver.org", "www.apache.org", "arxiv.org"}


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_relative)
def test_every_local_link_leads_somewhere(page):
    dead = []
    for target in local_links(page.read_text()):
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        is_alive = path.exists() and (not anchor or anchor in anchors(path.read_text()))
        if not is_alive:
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=_relative)
def test_every_shell_command_of_a_page_exists(page):
    faults = [
        fault for line in code_lines(page.read_text(), language="sh") if (fault := _fault(line))
    ]
    assert faults == []


def test_the_readme_shows_commands():
    assert len(code_lines(README.read_text(), language="sh")) >= 5


@pytest.mark.parametrize("page", PAGES, ids=_relative)
def test_every_python_block_of_a_page_compiles(page):
    # compile() raises SyntaxError at a block that a reader could not run: that is the assertion.
    for block in code_blocks(page.read_text(), language="python"):
        compile(block, str(page), "exec")


def test_the_examples_in_every_help_text_are_commands_that_exist():
    lines = [
        line.strip()
        for _, command in _commands()
        for line in (command.help or "").splitlines()
        if line.strip().startswith("intonaco ")
    ]
    assert lines
    assert [fault for line in lines if (fault := _fault(line))] == []


def test_the_command_line_page_is_fresh():
    written = (ROOT / "docs" / "cli.md").read_text()
    assert written == cli_docs.page(), "write it again: python -m scripts.cli_docs > docs/cli.md"


def test_every_flag_is_on_the_command_line_page():
    page = (ROOT / "docs" / "cli.md").read_text()
    flags = {flag for _, command in _commands() for item in command.params for flag in item.opts}
    assert [
        flag for flag in sorted(flags) if flag.startswith("-") and f"`{flag}`" not in page
    ] == []


def test_every_option_has_a_help_text():
    silent = [
        f"{' '.join(path)} {item.name}"
        for path, command in _commands()
        for item in command.params
        if not item.help
    ]
    assert silent == []


def test_pages_link_only_to_sites_that_stay():
    hosts = {
        (_relative(path), host)
        for path in PAGES
        for host in re.findall(r"https?://([\w.-]+)", path.read_text())
        if host not in LINK_HOSTS and host not in {"localhost", "127.0.0.1"}
    }
    assert sorted(hosts) == []


def _commands() -> list[tuple[tuple[str, ...], object]]:
    return list(cli_docs.commands(typer.main.get_command(app), ("intonaco",)))


def _fault(line: str) -> str:
    """Return why a shell command of a page would not run, or an empty string."""
    words = shlex.split(line)
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words.pop(0)
    program = words[0].removeprefix(".venv/bin/")
    match program:
        case "make":
            return _make_fault(line, words[1:])
        case "intonaco":
            return _intonaco_fault(line, words[1:])
        case "python" | "python3":
            return _python_fault(line, words[1:])
        case "cd" | "git" | "pip" | "source" | "curl":
            return ""
        case _ if program.startswith("scripts/"):
            return "" if (ROOT / program).is_file() else f"no such script: {line}"
        case _:
            return f"a command that no test knows: {line}"


def _make_fault(line: str, words: list[str]) -> str:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    unknown = [word for word in words if "=" not in word and word not in targets]
    return f"no such target {unknown}: {line}" if unknown else ""


def _intonaco_fault(line: str, words: list[str]) -> str:
    if words and words[0] in {"--help", "--version"}:
        return ""
    verbs = {path[1:]: command for path, command in _commands()}
    verb = next((path for path in verbs if tuple(words[: len(path)]) == path), None)
    if verb is None:
        return f"no such verb: {line}"
    try:
        verbs[verb].make_context("intonaco", words[len(verb) :])
    except typer.exceptions.TyperException as mistake:
        return f"{mistake.format_message()}: {line}"
    return ""


def _python_fault(line: str, words: list[str]) -> str:
    if words[:1] != ["-m"]:
        return "" if words[:1] == ["-c"] else f"no module to run: {line}"
    module = words[1]
    is_ours = module.split(".")[0] in {"scripts", "benchmarks", "models", "tests"}
    is_there = not is_ours or (ROOT / (module.replace(".", "/") + ".py")).is_file()
    return "" if is_there else f"no such module: {line}"
