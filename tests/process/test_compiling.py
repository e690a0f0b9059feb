"""Machine code on disk: another version of any source is never answered with the code of the old one."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.plane_decoders import needs_numba

SOURCES = {
    "constants": "NUMBER = 1\n",
    "inner": """
from intonaco.template.compiling import compiled
from kernels.constants import NUMBER

@compiled
def inner(number):
    return number + 10 * NUMBER
""",
    "outer": """
from intonaco.template.compiling import compiled
from kernels.inner import inner

@compiled
def outer(number):
    return inner(number) + 100
""",
}
COUNT = (
    "print(outer(1), sum(outer.stats.cache_hits.values()), sum(outer.stats.cache_misses.values()))"
)
RUN = f"from kernels.outer import outer; {COUNT}"
LONGEST_S = 60

pytestmark = needs_numba


class Package:
    """A package of kernels in a folder of the test's, run in processes of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kept = root / "kept"
        (root / "kernels").mkdir()
        self.write(**SOURCES)

    def write(self, **sources: str) -> None:
        for name, text in sources.items():
            (self.root / "kernels" / f"{name}.py").write_text(text)

    def start(self, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", RUN],
            cwd=self.root,
            # Two texts of one length, written within a second, have one .pyc.
            env={
                **os.environ,
                "PYTHONDONTWRITEBYTECODE": "1",
                "INTONACO_KERNELS": str(self.kept),
                **environment,
            },
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, **environment: str) -> tuple[int, int, int]:
        """Return the number that `outer` makes of 1, and how often its code was found and was not."""
        return result(self.start(**environment))


def result(process: "subprocess.Popen[str]") -> tuple[int, int, int]:
    shown, _ = process.communicate(timeout=LONGEST_S)
    assert process.returncode == 0
    number, num_found, num_compiled = map(int, shown.split())
    return number, num_found, num_compiled


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return Package(tmp_path)


@pytest.mark.parametrize(
    ("name", "before", "after"), [("inner", "number +", "number -"), ("constants", "1", "3")]
)
def test_code_that_holds_something_of_another_file_is_made_anew_when_that_file_changes(
    package, name, before, after
):
    expected = {"inner": 1 - 10 + 100, "constants": 1 + 30 + 100}
    assert package.run() == (111, 0, 1)
    assert package.run() == (111, 1, 0)
    package.write(**{name: SOURCES[name].replace(before, after)})
    assert package.run() == (expected[name], 0, 1)


def test_what_was_compiled_with_other_settings_of_numba_is_not_used(package):
    assert package.run()[1:] == (0, 1)
    assert package.run(NUMBA_BOUNDSCHECK="1")[1:] == (0, 1)
    assert package.run(NUMBA_CPU_NAME="generic")[1:] == (0, 1)


def test_processes_that_compile_at_once_agree(package):
    started = [package.start() for _ in range(3)]
    assert {result(process)[0] for process in started} == {111}
    assert package.run() == (111, 1, 0)


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_code_that_a_crash_cut_short_is_compiled_again_and_kept(package, kind):
    package.run()
    for path in package.kept.rglob(f"*.{kind}"):
        path.write_bytes(path.read_bytes()[:40])
    assert package.run() == (111, 0, 1)
    assert package.run() == (111, 1, 0)


def test_without_a_place_to_keep_it_code_is_compiled_each_time(package):
    package.kept.write_text("a file where the folder should be")
    assert package.run() == (111, 0, 1)
    assert package.run() == (111, 0, 1)


def test_nothing_is_written_beside_the_sources(package):
    package.run()
    assert {path.suffix for path in (package.root / "kernels").rglob("*.*")} == {".py"}


@pytest.fixture
def prune() -> Callable[..., None]:
    return import_module("intonaco.template.compiling").prune


def test_folders_of_versions_that_are_used_no_more_go_the_oldest_first(tmp_path, prune):
    names = [f"{number:032x}" for number in range(5)]
    for age, name in enumerate(names):
        (tmp_path / name).mkdir()
        (tmp_path / name / "outer.nbc").write_bytes(b"code")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "of somebody else").mkdir()
    prune(tmp_path, keep=2)
    assert {path.name for path in tmp_path.iterdir()} == {*names[:2], "of somebody else"}


def test_a_new_version_makes_room_and_using_an_old_one_keeps_it(package):
    package.run()
    (used,) = package.kept.iterdir()
    for number in range(1, 7):
        folder = package.kept / f"{number:032x}"
        folder.mkdir()
        os.utime(folder, (1e9 + number, 1e9 + number))
    os.utime(used, (1e9, 1e9))
    package.run()
    package.write(constants="NUMBER = 2\n")
    package.run()
    left = {path.name for path in package.kept.iterdir()}
    assert len(left) == 4
    assert {used.name, f"{6:032x}", f"{5:032x}"} < left
