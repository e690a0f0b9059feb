"""`make setup` on a machine where something is missing: all of it named at once, and the remedy."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup"
TOOLS = ("bash", "dirname", "env", "tail")


@pytest.fixture
def bare_path(tmp_path):
    """A folder of programs that holds nothing but what any system has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, f"this test needs {tool}"
        (folder / tool).symlink_to(found)
    return folder


def _program(folder, name, body):
    path = folder / name
    path.write_text(f"#!{folder}/bash\n{body}\n")
    path.chmod(0o755)


def _setup(bare_path, *words, **variables):
    return subprocess.run(
        [bare_path / "bash", SCRIPT, bare_path.parent / "venv", *words],
        env={"PATH": str(bare_path), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_that_is_missing_is_named_at_once(bare_path):
    run = _setup(bare_path)
    assert run.returncode == 1
    assert "Python 3.11 or newer" in run.stderr
    assert "g++" in run.stderr
    assert run.stderr.count("apt-get install") >= 2
    assert not (bare_path.parent / "venv").exists()


def test_a_python_that_is_too_old_is_not_taken(bare_path):
    _program(bare_path, "python3", "exit 1")
    run = _setup(bare_path)
    assert "Python 3.11 or newer" in run.stderr


def test_an_asked_python_that_is_too_old_is_named(bare_path):
    _program(bare_path, "python3.9", "exit 1")
    assert "PYTHON=python3.9 is not" in _setup(bare_path, "python3.9").stderr


def test_a_python_without_venv_is_named_with_its_package(bare_path):
    _program(bare_path, "python3", 'case "$2" in *ensurepip*) exit 1;; esac; exit 0')
    _program(bare_path, "g++", "exit 0")
    run = _setup(bare_path)
    assert run.returncode == 1
    assert "python3-venv" in run.stderr
    assert "g++" not in run.stderr


def test_the_compiler_may_be_left_out_on_purpose(bare_path):
    _program(bare_path, "python3", 'case "$2" in *ensurepip*) exit 1;; esac; exit 0')
    run = _setup(bare_path, WITHOUT_COMPILER="1")
    assert "g++" not in run.stderr
    assert (
        os.linesep.join(["setup: cannot start, this is missing:", "  - venv and pip"]) in run.stderr
    )


def test_an_installation_that_fails_shows_why_and_says_what_to_try(bare_path):
    _program(bare_path, "g++", "exit 0")
    _program(bare_path, "python3", "exit 0")
    venv_bin = bare_path.parent / "venv" / "bin"
    venv_bin.mkdir(parents=True)
    answer = 'case "$*" in *"pip install"*) echo "no network" >&2; exit 1;; esac; exit 0'
    _program(bare_path, "python-of-venv", answer)
    (venv_bin / "python").symlink_to(bare_path / "python-of-venv")
    run = _setup(bare_path)
    assert run.returncode == 1
    assert "no network" in run.stderr
    assert "PIP_FIND_LINKS" in run.stderr
