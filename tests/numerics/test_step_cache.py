"""The step cache in the one host loop, over a tiny random FLUX.2 checkpoint."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from intonaco.errors import GenerationCancelled
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.registry import load_family
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.generate import generate
from intonaco.stepcache.settings import OFF, parse_settings


@pytest.fixture(scope="module")
def family(tiny_flux2_folder):
    checkpoint = read_checkpoint(tiny_flux2_folder)
    return load_family(checkpoint, dtype=torch.float32, device=torch.device("cpu"))


def request_of(num_steps: int = 8, width: int = 64, **more) -> GenerateRequest:
    return GenerateRequest(
        prompt="a tall girl with red hair",
        seed=7,
        width=width,
        height=64,
        num_steps=num_steps,
        **more,
    )


def cached(text: str) -> StepCacheRequest:
    return StepCacheRequest(settings=parse_settings(text))


def kinds(result) -> str:
    return "".join(record.kind[0] for record in result.step_cache.records)


def same_bits(first, second) -> bool:
    return torch.equal(first.latents, second.latents) and np.array_equal(first.image, second.image)


@pytest.mark.parametrize("request_for_cache", [StepCacheRequest(), StepCacheRequest(settings=OFF)])
def test_caching_off_is_bit_identical_to_no_cache_at_all(family, request_for_cache):
    plain = generate(family, request_of())
    off = generate(family, request_of(), step_cache=request_for_cache)
    assert same_bits(plain, off)
    assert off.step_cache is None


def test_a_cache_that_caches_nothing_is_bit_identical_to_no_cache(family):
    plain = generate(family, request_of())
    watched = generate(family, request_of(), step_cache=cached("cadence:2,window=8-0"))
    assert same_bits(plain, watched)
    assert "skipped nothing" in watched.warnings[-1]


def test_cached_steps_do_not_call_the_denoiser(family):
    calls = []

    def counted(inputs):
        calls.append(1)
        return family.denoiser(inputs)

    result = generate(
        replace(family, denoiser=counted), request_of(), step_cache=cached("cadence:2,window=2-1")
    )
    assert kinds(result) == "fffcfcff"
    assert len(calls) == result.step_cache.num_calls == 6
    assert len(result.step_ms) == 8


@pytest.mark.parametrize("first", [1, 4])
def test_nothing_of_a_request_reaches_the_next_whatever_its_steps(family, first):
    alone = generate(family, request_of(10), step_cache=cached("cadence:2,window=2-1"))
    generate(family, request_of(first), step_cache=cached("cadence:2,window=2-1"))
    after = generate(family, request_of(10), step_cache=cached("cadence:2,window=2-1"))
    assert same_bits(alone, after)
    assert kinds(alone) == kinds(after)


def test_nothing_of_a_request_reaches_the_next_of_another_size(family):
    alone = generate(family, request_of(), step_cache=cached("online-delta:2,window=2-1"))
    generate(family, request_of(width=96), step_cache=cached("online-delta:2,window=2-1"))
    after = generate(family, request_of(), step_cache=cached("online-delta:2,window=2-1"))
    assert same_bits(alone, after)


def test_nothing_of_a_cancelled_request_reaches_the_next(family):
    alone = generate(family, request_of(), step_cache=cached("cadence:2,window=2-1"))
    with pytest.raises(GenerationCancelled):
        generate(
            family,
            request_of(),
            step_cache=cached("cadence:2,window=2-1"),
            progress=lambda event: event.index < 3,
        )
    assert same_bits(
        alone, generate(family, request_of(), step_cache=cached("cadence:2,window=2-1"))
    )


def test_nothing_of_a_request_that_failed_reaches_the_next(family):
    alone = generate(family, request_of(), step_cache=cached("cadence:2,window=2-1"))
    calls = []

    def failing(inputs):
        calls.append(1)
        if len(calls) == 4:
            raise RuntimeError("device lost")
        return family.denoiser(inputs)

    with pytest.raises(RuntimeError, match="device lost"):
        generate(
            replace(family, denoiser=failing),
            request_of(),
            step_cache=cached("cadence:2,window=2-1"),
        )
    assert same_bits(
        alone, generate(family, request_of(), step_cache=cached("cadence:2,window=2-1"))
    )


def test_a_reference_picture_is_no_part_of_the_cached_output(family):
    from PIL import Image

    pictures = (Image.new("RGB", (64, 64), "red"),)
    result = generate(
        family, request_of(references=pictures), step_cache=cached("cadence:2,window=2-1")
    )
    assert result.step_cache.num_cached == 2


def test_an_edit_keeps_its_template_exactly_while_steps_are_cached(family):
    from PIL import Image

    from intonaco.pipelines.edit import edit

    rng = np.random.default_rng(0)
    template = Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8))
    mask = np.zeros((64, 64), dtype=bool)
    mask[16:48, 16:48] = True
    result = edit(
        family,
        request_of(),
        template=template,
        mask_HW=mask,
        step_cache=cached("cadence:2,window=2-1"),
    )
    assert result.generation.step_cache.num_cached == 2
    assert np.array_equal(np.asarray(result.image)[~mask], np.asarray(template)[~mask])


def test_the_receipt_lists_what_was_cached_and_replay_repeats_it(tiny_flux2_folder, tmp_path):
    import intonaco

    model = intonaco.load(tiny_flux2_folder)
    picture = model.generate(
        "a red hat", seed=3, num_steps=8, step_cache="online-delta:2,window=2-1"
    )
    record = picture.receipt.step_cache
    assert record.settings.startswith("online-delta:2,estimator=")
    assert "cached" in record.steps
    assert len(record.steps) == len(record.scores) == 8
    assert record.num_calls + record.num_cached == 8
    again = intonaco.replay(picture.save(tmp_path / "cached.png"), model)
    assert again.receipt.step_cache.steps == record.steps
    assert again.receipt.step_cache.settings == record.settings
    assert again.receipt.picture_sha256 == picture.receipt.picture_sha256


def test_a_run_too_short_to_cache_says_so_in_its_warnings_and_receipt(tiny_flux2_folder):
    import intonaco

    model = intonaco.load(tiny_flux2_folder)
    picture = model.generate("a red hat", seed=3, num_steps=2, step_cache="cadence:2")
    assert any("skipped nothing" in warning for warning in picture.warnings)
    assert picture.receipt.step_cache.num_cached == 0


def test_a_model_without_a_calibration_file_says_how_to_write_one(tiny_flux2_folder):
    import intonaco
    from intonaco.errors import CalibrationError

    model = intonaco.load(tiny_flux2_folder)
    with pytest.raises(CalibrationError, match="intonaco calibrate"):
        model.generate("a red hat", seed=3, step_cache="calibrated")
