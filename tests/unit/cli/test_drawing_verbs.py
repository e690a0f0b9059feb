"""`generate` and `edit` on a tiny random checkpoint: what is written, what is said."""

import json

import numpy as np
import pytest
from PIL import Image

import intonaco


def _pixels(path):
    with Image.open(path) as opened:
        return np.asarray(opened)


@pytest.fixture
def template(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    path = tmp_path / "template.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def mask(tmp_path):
    pixels = np.zeros((64, 64), dtype=np.uint8)
    pixels[16:48, 16:48] = 255
    path = tmp_path / "mask.png"
    Image.fromarray(pixels).save(path)
    return path


def test_generate_writes_a_picture_named_by_its_seed_and_says_where(
    run, tiny_flux2_folder, tmp_path
):
    result = run("generate", "a girl", "-m", tiny_flux2_folder, "--seed", 7)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("picture-7.png: 64x64, seed 7, 4 steps in ")
    assert _pixels(tmp_path / "picture-7.png").shape == (64, 64, 3)


def test_generate_follows_size_steps_and_output(run, tiny_flux2_folder, tmp_path):
    words = ("--size", "96x64", "--steps", 2, "-o", "wide.png", "--seed", 1)
    assert run("generate", "a girl", "-m", tiny_flux2_folder, *words).code == 0
    receipt = intonaco.read_receipt(tmp_path / "wide.png")
    assert (receipt.width, receipt.height, receipt.num_steps) == (96, 64, 2)


def test_generate_with_json_prints_one_object_with_the_receipt(run, tiny_flux2_folder):
    result = run("generate", "a girl", "-m", tiny_flux2_folder, "--seed", 7, "--json")
    fields = json.loads(result.out)
    assert fields["picture"] == "picture-7.png"
    assert (fields["receipt"]["seed"], fields["receipt"]["prompt"]) == (7, "a girl")


def test_a_word_that_the_model_does_not_know_is_a_warning(run, tiny_flux2_folder):
    result = run("generate", "a zebra", "-m", tiny_flux2_folder, "--seed", 7)
    assert result.code == 0
    assert result.err.startswith("warning: ")
    assert "zebra" in result.err


def test_a_seed_left_out_is_drawn_and_named(run, tiny_flux2_folder, tmp_path):
    fields = json.loads(run("generate", "a girl", "-m", tiny_flux2_folder, "--json").out)
    assert (tmp_path / f"picture-{fields['receipt']['seed']}.png").is_file()


def test_receipt_writes_it_beside_the_picture(run, tiny_flux2_folder, tmp_path):
    run("generate", "a girl", "-m", tiny_flux2_folder, "--seed", 7, "--receipt")
    assert json.loads((tmp_path / "picture-7.json").read_text())["prompt"] == "a girl"


def test_private_keeps_the_prompt_out_of_the_file_and_the_output(run, tiny_flux2_folder, tmp_path):
    words = ("--seed", 7, "--private", "--json", "--receipt")
    result = run("generate", "a secret girl", "-m", tiny_flux2_folder, *words)
    written = b"".join(path.read_bytes() for path in tmp_path.glob("picture-7*"))
    assert b"secret" not in written
    assert "secret" not in json.dumps(json.loads(result.out)["receipt"])


def test_references_change_the_picture(run, tiny_flux2_folder, template, tmp_path):
    words = ("generate", "a girl", "-m", tiny_flux2_folder, "--seed", 7)
    run(*words, "-o", "plain.png")
    run(*words, "-o", "referenced.png", "--reference", template)
    digests = {
        intonaco.read_receipt(tmp_path / name).picture_sha256
        for name in ("plain.png", "referenced.png")
    }
    assert len(digests) == 2


def test_edit_changes_pixels_inside_the_mask_only(run, tiny_flux2_folder, template, mask, tmp_path):
    words = ("--mask", mask, "-p", "a girl", "--seed", 7, "-o", "edited.png")
    assert run("edit", template, "-m", tiny_flux2_folder, *words).code == 0
    before, after, may_change = (
        _pixels(path) for path in (template, tmp_path / "edited.png", mask)
    )
    changed = (before != after).any(axis=-1)
    assert changed.any()
    assert not changed[may_change == 0].any()


def test_edit_needs_a_prompt_or_a_reference(run, tiny_flux2_folder, template, mask):
    result = run("edit", template, "-m", tiny_flux2_folder, "--mask", mask)
    assert (result.code, result.out) == (2, "")
    assert "prompt or references" in result.err


def test_doctor_names_the_model_and_says_that_it_can_draw(run, tiny_flux2_folder):
    result = run("doctor", "-m", tiny_flux2_folder, "--json")
    fields = json.loads(result.out)
    findings = {finding["name"]: finding for finding in fields["findings"]}
    assert (result.code, fields["can_draw"]) == (0, True)
    assert "Flux2KleinPipeline" in findings["model"]["value"]


def test_doctor_without_a_model_says_what_to_do_and_fails(run):
    result = run("doctor", "-m", "nowhere")
    assert result.code == 3
    assert "cannot draw yet: model first" in result.out
    assert "--model FOLDER" in result.out
