"""`calibrated` finds the file that lies in the model's folder, and nothing else there changes."""

import shutil

import pytest

import intonaco
from intonaco.errors import CalibrationError
from intonaco.stepcache.calibration import FILE_NAME, Calibration, Offer
from intonaco.stepcache.policies import Cadence, Window
from intonaco.stepcache.settings import StepCacheSettings

NUM_STEPS = 8
SETTINGS = StepCacheSettings(policy=Cadence(), window=Window(first=2, last=1))


@pytest.fixture
def folder(tiny_flux2_folder, tmp_path):
    return shutil.copytree(tiny_flux2_folder, tmp_path / "model")


def tiny_calibration(model: intonaco.Model) -> Calibration:
    numbers = dict.fromkeys(
        ("psnr_mean_db", "psnr_worst_db", "psnr_p5_db", "fewer_steps_psnr_mean_db"), 50.0
    )
    offer = Offer(
        name="even",
        settings=SETTINGS,
        num_steps=NUM_STEPS,
        num_calls=6.0,
        ceiling=1.333,
        share_above_fewer_steps=1.0,
        **numbers,
    )
    return Calibration(
        model_name=model.name,
        model_digest=model.digest,
        num_prompts=4,
        num_steps=NUM_STEPS,
        signal=None,
        offers=(offer,),
        chosen="even",
    )


def draw(model: intonaco.Model, step_cache) -> intonaco.Picture:
    sizes = {"width": 64, "height": 64}
    return model.generate("a hat", seed=1, num_steps=NUM_STEPS, step_cache=step_cache, **sizes)


def test_calibrated_takes_the_file_in_the_models_folder(folder):
    model = intonaco.load(folder)
    calibration = tiny_calibration(model)
    (folder / FILE_NAME).write_text(calibration.to_json())
    record = draw(model, "calibrated").receipt.step_cache
    assert record.calibration == calibration.digest
    assert record.steps == draw(model, SETTINGS).receipt.step_cache.steps
    assert record.num_cached > 0


def test_the_file_is_no_part_of_the_models_digest(folder):
    before = intonaco.load(folder).digest
    (folder / FILE_NAME).write_text("{}")
    assert intonaco.load(folder).digest == before


def test_the_file_of_another_model_is_refused(folder):
    model = intonaco.load(folder)
    other = tiny_calibration(model).model_copy(update={"model_digest": "cd" * 32})
    (folder / FILE_NAME).write_text(other.to_json())
    with pytest.raises(CalibrationError, match=r"the model is .*write one with"):
        draw(model, "calibrated")
