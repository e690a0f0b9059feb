"""Compiling across processes: once for all, and no trace of one that was killed."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from intonaco.backends.registry import make_backend
from intonaco.errors import CompileError
from intonaco.programs.compiler import ensure_programs
from intonaco.programs.store import ArtifactStore
from tests.support.artifacts import publish
from tests.support.fake_backend import FakeBackend
from tests.support.program_builders import affine_spec, simple_spec

ENSURE = """
import sys
from pathlib import Path
from intonaco.backends.registry import make_backend
from intonaco.programs.compiler import ensure_programs
from intonaco.programs.store import ArtifactStore
from tests.support import program_builders

spec = eval(sys.argv[2], vars(program_builders))
ensure_programs(
    ArtifactStore(Path(sys.argv[1])), make_backend("inductor"), [spec],
    progress=lambda event: print(event.phase, flush=True),
)
"""
# A compile takes ten seconds on an idle machine; the deadline only ends a test that hangs.
DEADLINE_S = 500.0
pytestmark = [pytest.mark.compiles, pytest.mark.timeout(DEADLINE_S + 100)]


def start(store: ArtifactStore, spec: str, **streams) -> subprocess.Popen[str]:
    """Start a process that needs the program of `spec`, a call of a function of our builders."""
    return subprocess.Popen(
        [sys.executable, "-c", ENSURE, str(store.root), spec],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
        **streams,
    )


def wait_until(condition) -> bool:
    """Wait for `condition` to hold, up to the deadline, and say whether it does."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition() and time.monotonic() < deadline:
        pass
    return bool(condition())


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children()


def test_two_processes_that_need_the_same_program_compile_it_once(tmp_path):
    store = ArtifactStore(tmp_path)
    first = start(store, "affine_spec()")
    assert first.stdout.readline() == "compiling\n"
    second = start(store, "affine_spec()")
    phases = [process.communicate(timeout=DEADLINE_S)[0].split() for process in (first, second)]
    assert phases == [["compiled"], ["waiting", "found"]]


def test_a_killed_compile_blocks_nothing_and_leaves_nothing(tmp_path):
    store = ArtifactStore(tmp_path)
    process = start(store, "simple_spec('slow')")
    assert process.stdout.readline() == "compiling\n"
    assert wait_until(lambda: children(process.pid))
    (worker,) = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    worker.wait(timeout=DEADLINE_S)
    store.sweep()
    assert (store.manifests(), list((tmp_path / ".scratch").iterdir())) == ([], [])
    with store.lock("any") as lock:
        lock.acquire(timeout=0)


def test_a_compiling_process_that_dies_is_an_error_that_says_so_and_leaves_nothing(tmp_path):
    process = start(ArtifactStore(tmp_path), "simple_spec('slow')", stderr=subprocess.PIPE)
    assert process.stdout.readline() == "compiling\n"
    assert wait_until(lambda: children(process.pid))
    (worker,) = children(process.pid)
    worker.kill()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert "program 'test/slow': the compiling process ended with -9" in errors
    assert list((tmp_path / ".scratch").iterdir()) == []


def test_a_damaged_program_is_compiled_again(tmp_path):
    store = ArtifactStore(tmp_path)
    key = publish(store, affine_spec())
    (tmp_path / key.digest / "program.bin").write_bytes(b"cut")
    phases = []
    ensure_programs(
        store, FakeBackend(), [affine_spec()], progress=lambda event: phases.append(event.phase)
    )
    assert phases == ["damaged", "compiling", "compiled"]
    assert [verdict.problem for verdict in store.verify()] == [""]


def test_equal_programs_are_compiled_once(tmp_path):
    phases = []
    folders = ensure_programs(
        ArtifactStore(tmp_path),
        FakeBackend(),
        [affine_spec(), affine_spec()],
        progress=lambda event: phases.append(event.phase),
    )
    assert (phases, folders[0]) == (["compiling", "compiled"], folders[1])


def test_a_module_that_cannot_be_traced_names_its_component(tmp_path):
    store = ArtifactStore(tmp_path)
    with pytest.raises(CompileError, match=r"'test/failing' does not compile: "):
        ensure_programs(store, make_backend("inductor"), [simple_spec("failing")])
    assert (store.manifests(), list((tmp_path / ".scratch").iterdir())) == ([], [])


def test_an_undeclared_constant_is_refused(tmp_path):
    spec = affine_spec()
    kept = tuple(item for item in spec.constants if item.name != "table")
    spec = spec.model_copy(update={"constants": kept})
    with pytest.raises(CompileError, match=r"does not declare: table; declare them"):
        ensure_programs(ArtifactStore(tmp_path), make_backend("inductor"), [spec])
