"""The front door on a tiny random checkpoint: defaults, receipts, edits, replay."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import intonaco
from intonaco import (
    GenerationCancelled,
    Model,
    PictureError,
    PromptTooLongError,
    ReplayError,
    RequestError,
)

SMALL = {"width": 64, "height": 64, "num_steps": 2}


@pytest.fixture(scope="module")
def model(tiny_flux2_folder: Path) -> Model:
    return intonaco.load(tiny_flux2_folder)


@pytest.fixture(scope="module")
def template() -> Image.Image:
    pixels = np.random.default_rng(5).integers(0, 256, (64, 80, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def mask() -> Image.Image:
    picture = Image.new("L", (80, 64), 0)
    picture.paste(255, (20, 10, 60, 50))
    return picture


def test_settings_left_out_are_the_models_defaults(model: Model):
    receipt = model.generate("a girl").receipt

    assert (receipt.width, receipt.height, receipt.num_steps) == (64, 64, 4)


def test_a_seed_left_out_is_drawn_and_stands_in_the_receipt(model: Model):
    first, second = (model.generate("a girl", **SMALL) for _ in range(2))

    assert first.receipt.seed != second.receipt.seed
    again = model.generate("a girl", seed=first.receipt.seed, **SMALL)
    assert again.image.tobytes() == first.image.tobytes()


def test_no_generation_leaves_a_trace_in_the_next(model: Model, template, mask):
    before = model.generate("a girl", seed=1, **SMALL).image.tobytes()
    model.generate("a boy", seed=2, references=[template], width=96, height=64, num_steps=3)
    model.edit(template, mask, prompt="a boy", seed=3, num_steps=2)
    with pytest.raises(GenerationCancelled):
        model.generate("a boy", seed=4, progress=lambda event: False, **SMALL)

    assert model.generate("a girl", seed=1, **SMALL).image.tobytes() == before


def test_the_receipt_says_what_drew_the_picture(model: Model):
    receipt = model.generate("a girl with zebra hair", seed=1, **SMALL).receipt

    assert (receipt.kind, receipt.prompt, receipt.seed) == ("generate", "a girl with zebra hair", 1)
    assert (receipt.dtype, receipt.device, receipt.family) == ("float32", "cpu", "flux2")
    assert receipt.model_digest == model.digest
    assert (len(receipt.sigmas), len(receipt.step_ms)) == (3, 2)
    assert {"intonaco", "torch", "diffusers"} <= set(receipt.environment.versions)


def test_an_unknown_word_is_a_warning_in_picture_and_receipt(model: Model):
    picture = model.generate("a girl with zebra hair", seed=1, **SMALL)

    assert picture.warnings == (
        "word 'zebra' is not in the model's vocabulary; it may have no effect",
    )
    assert picture.receipt.warnings == picture.warnings


def test_without_vocabulary_check_no_word_is_unknown(tiny_flux2_folder: Path, tmp_path: Path):
    folder = Path(shutil.copytree(tiny_flux2_folder, tmp_path / "model"))
    settings = json.loads((folder / "intonaco.json").read_text())
    (folder / "intonaco.json").write_text(json.dumps({**settings, "vocabulary_check": False}))

    assert intonaco.load(folder).generate("a zebra", seed=1, **SMALL).warnings == ()


def test_settings_that_a_distilled_model_ignores_are_warned_of(model: Model):
    picture = model.generate("a girl", seed=1, guidance_scale=4, negative_prompt="red", **SMALL)

    assert [warning.split(" has")[0] for warning in picture.warnings] == [
        "guidance_scale 4",
        "negative_prompt",
    ]


def test_a_private_picture_keeps_its_words_out_of_the_receipt(model: Model):
    picture = model.generate(
        "a zebra girl", negative_prompt="red", seed=1, is_private=True, **SMALL
    )

    text = picture.receipt.to_json()
    assert "zebra" not in text
    assert "red" not in text.replace("Ignored", "")
    assert any("zebra" in warning for warning in picture.warnings)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 100}, "width must be a multiple of 16 .* got 100; the nearest that works is 96"),
        ({"height": 48}, "height must be .* at least 64, got 48; the nearest that works is 64"),
        ({"width": 4096, "height": 4096}, "at most 4194304 pixels, got 4096 x 4096"),
        ({"seed": float("nan")}, "seed must be a whole number"),
        ({"num_frames": 2}, "num_frames must be 1 for flux2"),
        ({"references": "a.png"}, "references must be a list"),
        ({"prompt": "a girl " * 13}, "at most 24 tokens"),
    ],
)
def test_a_request_that_cannot_be_drawn_is_refused_before_any_step(model, wrong, message):
    events: list[object] = []
    request = {"prompt": "a girl", "seed": 1, "progress": events.append, **SMALL, **wrong}

    with pytest.raises((RequestError, PromptTooLongError), match=message):
        model.generate(**request)
    assert events == []


@pytest.mark.parametrize(
    ("size", "message"),
    [((63, 64), "at least 64 pixels a side, got 63 x 64"), ((64, 600), "at most 8 times")],
)
def test_a_reference_that_the_model_cannot_read_is_refused(model: Model, size, message: str):
    references = [Image.new("RGB", (64, 64)), Image.new("RGB", size)]

    with pytest.raises(PictureError, match=rf"references\[1\] must be {message}"):
        model.generate("a girl", seed=1, references=references, **SMALL)


def test_references_may_be_paths(model: Model, template: Image.Image, tmp_path: Path):
    template.save(tmp_path / "reference.png")

    by_path = model.generate("a girl", seed=1, references=[tmp_path / "reference.png"], **SMALL)
    in_hand = model.generate("a girl", seed=1, references=[template], **SMALL)

    assert by_path.image.tobytes() == in_hand.image.tobytes()
    assert by_path.receipt.references_sha256 == in_hand.receipt.references_sha256


def test_an_edit_needs_words_or_a_reference(model: Model, template, mask):
    with pytest.raises(RequestError, match="edit needs prompt or references"):
        model.edit(template, mask, seed=1)
    assert model.edit(template, mask, references=[template], seed=1, num_steps=1)


def test_a_template_of_a_size_that_cannot_be_drawn_is_refused(model: Model):
    with pytest.raises(RequestError, match="width must be a multiple of 16"):
        model.edit(Image.new("RGB", (70, 64)), Image.new("L", (70, 64), 255), prompt="a girl")


def test_a_mask_of_another_size_is_refused(model: Model, template: Image.Image):
    with pytest.raises(PictureError, match="mask must be as large as the template, 80 x 64"):
        model.edit(template, Image.new("L", (64, 80)), prompt="a girl")


def test_an_edit_and_its_receipt(model: Model, template, mask):
    picture = model.edit(template, mask, prompt="a girl", seed=1, num_steps=2)

    outside = np.asarray(mask) == 0
    assert np.array_equal(np.asarray(picture.image)[outside], np.asarray(template)[outside])
    assert (picture.receipt.kind, picture.receipt.edit.feather_pixels) == ("edit", 6)


def test_a_mask_thinner_than_the_feather_is_warned_of(model: Model, template: Image.Image):
    thin = Image.new("L", (80, 64), 0)
    thin.paste(255, (20, 0, 24, 64))

    warnings = model.edit(template, thin, prompt="a girl", seed=1, num_steps=1).warnings

    assert "thinner than twice feather_pixels 6" in warnings[-1]


def test_replay_draws_the_same_bytes(model: Model, template: Image.Image, tmp_path: Path):
    picture = model.generate("a girl", seed=9, references=[template], image_index=2, **SMALL)
    path = picture.save(tmp_path / "a.png")

    again = intonaco.replay(path, model, references=[template])

    assert again.image.tobytes() == picture.image.tobytes()


def test_replay_loads_the_model_it_is_pointed_at(model, tiny_flux2_folder: Path, tmp_path: Path):
    path = model.generate("a girl", seed=9, **SMALL).save(tmp_path / "a.png")

    assert intonaco.replay(path, tiny_flux2_folder).receipt.seed == 9


def test_replay_of_an_edit_draws_the_same_bytes(model: Model, template, mask, tmp_path: Path):
    picture = model.edit(template, mask, prompt="a girl", seed=9, num_steps=2, feather_pixels=3)
    path = picture.save(tmp_path / "a.png")

    again = intonaco.replay(path, model, template=template, mask=mask)

    assert again.image.tobytes() == picture.image.tobytes()


def test_replay_of_a_private_picture_needs_its_prompt(model: Model, tmp_path: Path):
    picture = model.generate("a girl", seed=9, is_private=True, **SMALL)
    path = picture.save(tmp_path / "a.png")

    with pytest.raises(ReplayError, match=r"^prompt: "):
        intonaco.replay(path, model)
    again = intonaco.replay(path, model, prompt="a girl")
    assert again.image.tobytes() == picture.image.tobytes()


def test_replay_with_another_prompt_says_that_the_pixels_differ(model: Model, tmp_path: Path):
    path = model.generate("a girl", seed=9, is_private=True, **SMALL).save(tmp_path / "a.png")

    with pytest.raises(ReplayError, match=r"^picture_sha256: "):
        intonaco.replay(path, model, prompt="a boy")


def test_replay_names_the_picture_that_is_missing_or_another(
    model: Model, template: Image.Image, mask: Image.Image, tmp_path: Path
):
    drawn = model.generate("a girl", seed=9, references=[template], **SMALL)
    edited = model.edit(template, mask, prompt="a girl", seed=9, num_steps=1)
    with_reference, edit = drawn.save(tmp_path / "a.png"), edited.save(tmp_path / "b.png")
    other = Image.new("RGB", template.size)

    with pytest.raises(ReplayError, match=r"^references_sha256: drawn with 1 references, got 0"):
        intonaco.replay(with_reference, model)
    with pytest.raises(ReplayError, match=r"^references_sha256: references\[0\] is another"):
        intonaco.replay(with_reference, model, references=[other])
    with pytest.raises(ReplayError, match=r"^template: "):
        intonaco.replay(edit, model, mask=mask)
    with pytest.raises(ReplayError, match=r"^mask: "):
        intonaco.replay(edit, model, template=template)
    with pytest.raises(ReplayError, match=r"^template_sha256: "):
        intonaco.replay(edit, model, template=other, mask=mask)


def test_replay_by_another_model_or_precision_is_refused(
    model: Model, tiny_flux2_folder: Path, tmp_path: Path
):
    from tests.support.tiny_flux2 import build_tiny_flux2

    path = model.generate("a girl", seed=9, **SMALL).save(tmp_path / "a.png")
    another = build_tiny_flux2(tmp_path / "another", seed=1)

    with pytest.raises(ReplayError, match=r"^model_digest: drawn with tiny-flux2"):
        intonaco.replay(path, another)
    with pytest.raises(ReplayError, match=r"^dtype: drawn with float32"):
        intonaco.replay(path, intonaco.load(tiny_flux2_folder, dtype="bfloat16"))


def test_a_series_under_one_seed_draws_different_pictures(model: Model):
    drawn = {
        model.generate("a girl", seed=1, image_index=index, **SMALL).image.tobytes()
        for index in range(3)
    }
    assert len(drawn) == 3
