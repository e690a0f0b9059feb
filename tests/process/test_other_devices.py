"""A model on another device than the host's: every operand is moved there, and little, seldom.

The device is pretended: it computes on the host, and refuses operands that lie elsewhere. What only a
GPU has (streams, page-locked memory) is not met here.
"""

import json
import subprocess
import sys

import pytest

from tests.support.documents import ROOT

# Attention runs as plain products there, in one fused kernel on the host: float32 sums in another
# order, a few units in the last place of latents of about 1.
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def report(tiny_flux2_folder):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.support.pretend_edits", tiny_flux2_folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_the_device_refuses_operands_that_lie_on_the_host(report):
    assert report["mixed"] == "aten::add: operands on pretend and on cpu"


@pytest.mark.parametrize("what", ["generate", "dense", "sparse", "reference", "capture"])
def test_numbers_are_those_of_the_host(report, what):
    assert report[what] < ROUNDING


def test_a_sparse_step_moves_nothing_but_the_noise_level_when_its_state_is_there(report):
    assert report["moves"] == ["aten::_to_copy"]


def test_a_whole_streamed_edit_draws_the_picture_that_a_local_one_does_on_the_host(report):
    # One step of a byte: rounding may fall to either side of a half.
    assert report["streamed"] <= 1
