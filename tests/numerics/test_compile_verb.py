"""`intonaco compile` makes what a picture needs, says so, and a request then compiles nothing."""

import subprocess
import sys
from importlib import util

import pytest

import intonaco
from intonaco.programs.store import ArtifactStore
from tests.support.compile_checks import check_progress, check_second_run, check_why

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        util.find_spec("openvino") is None, reason="the openvino extra is not installed"
    ),
]
NUM_PROGRAMS = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def words(tiny_flux2_folder, store):
    places = ["-m", str(tiny_flux2_folder), "--store", str(store)]
    return [*places, "--size", "64x64", "--backend", "openvino"]


@pytest.fixture(scope="module")
def compiled(words):
    """Return the finished command, which compiled them all."""
    command = [sys.executable, "-m", "intonaco", "compile", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_every_program_is_stored_once_and_nothing_else_is_left(compiled, store):
    assert compiled.returncode == 0
    assert len(ArtifactStore(store).manifests()) == NUM_PROGRAMS
    assert list((store / ".scratch").iterdir()) == []


def test_progress_is_a_line_for_each_program(compiled):
    check_progress(compiled.stderr, NUM_PROGRAMS)


@pytest.mark.usefixtures("compiled")
def test_a_second_run_compiles_nothing(words, capsys):
    check_second_run(words, capsys)


@pytest.mark.usefixtures("compiled")
def test_why_finds_them_all(words, capsys):
    check_why(words, capsys, NUM_PROGRAMS)


@pytest.mark.usefixtures("compiled")
def test_a_request_compiles_nothing_more(tiny_flux2_folder, store):
    model = intonaco.load(tiny_flux2_folder, backend="openvino", store=store, may_compile=False)
    picture = model.generate("a hat", seed=1, width=64, height=64, num_steps=1)
    assert picture.receipt.backend == "openvino"
