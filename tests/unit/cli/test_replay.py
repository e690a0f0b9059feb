"""`intonaco replay` draws the same pixels from a receipt, or names what stands in the way."""

import shlex

import numpy as np
import pytest
from PIL import Image

from intonaco import read_receipt


@pytest.fixture
def drawn(run, tiny_flux2_folder, tmp_path):
    run("generate", "a girl", "-m", tiny_flux2_folder, "--seed", 7, "-o", "girl.png")
    return tmp_path / "girl.png"


def _pixels(path):
    with Image.open(path) as opened:
        return np.asarray(opened)


def _random_picture(path, seed):
    pixels = np.random.default_rng(seed).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def test_a_replayed_picture_has_the_same_pixels_and_keeps_the_first_one(
    run, drawn, tiny_flux2_folder
):
    before = drawn.read_bytes()
    result = run("replay", "girl.png", "-m", tiny_flux2_folder)
    assert (result.code, result.err) == (0, "")
    assert "the same pixels as girl.png" in result.out
    assert (_pixels(drawn.with_name("girl-replay.png")) == _pixels(drawn)).all()
    assert drawn.read_bytes() == before


def test_the_replay_command_that_generate_prints_works(run, tiny_flux2_folder):
    said = run("generate", "a girl", "-m", tiny_flux2_folder, "--seed", 7).out
    command = shlex.split(said.splitlines()[-1].partition(": ")[2])
    assert command[0] == "intonaco"
    assert run(*command[1:]).code == 0


def test_the_replay_command_that_a_private_edit_by_reference_prints_works(
    run, tiny_flux2_folder, tmp_path
):
    template = _random_picture(tmp_path / "template.png", 0)
    reference = _random_picture(tmp_path / "reference.png", 1)
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[:32] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    words = ("--mask", "mask.png", "-r", reference, "-p", "a girl", "--private", "--seed", 3)
    said = run("edit", template, "-m", tiny_flux2_folder, *words).out
    command = shlex.split(said.splitlines()[-1].partition(": ")[2])
    assert run(*command[1:]).code == 0


def test_another_model_is_refused_by_its_digest(run, drawn, tmp_path):
    from tests.support.tiny_flux2 import build_tiny_flux2

    other = build_tiny_flux2(tmp_path / "other", seed=1)
    result = run("replay", "girl.png", "-m", other)
    assert (result.code, result.out) == (2, "")
    assert "model_digest" in result.err
    assert not (tmp_path / "girl-replay.png").exists()


def test_a_private_receipt_asks_for_the_prompt(run, tiny_flux2_folder, tmp_path):
    run("generate", "a girl", "-m", tiny_flux2_folder, "--seed", 7, "--private", "-o", "girl.png")
    assert read_receipt(tmp_path / "girl.png").prompt is None
    assert "pass the prompt" in run("replay", "girl.png", "-m", tiny_flux2_folder).err
    assert run("replay", "girl.png", "-m", tiny_flux2_folder, "--prompt", "a girl").code == 0
