"""Calibration and comparison over a tiny random checkpoint: that they run and keep their promises."""

import json

import pytest

import intonaco
from intonaco.cli import main
from intonaco.families.request import GenerateRequest
from intonaco.families.source import shipped_folder
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.calibrate import Target, calibrate
from intonaco.pipelines.compare import Mode, compare_modes
from intonaco.pipelines.matrix import save_calibration_plots
from intonaco.quality.metrics import psnr
from intonaco.stepcache.calibration import FILE_NAME, read_calibration
from intonaco.stepcache.policies import Adaptive
from intonaco.stepcache.settings import parse_settings

PROMPTS = ("a red hat", "a tall girl", "blue hair", "a boy in green")
NUM_STEPS = 12


@pytest.fixture(scope="module")
def model(tiny_flux2_folder):
    return intonaco.load(tiny_flux2_folder)


def requests_of(num_steps: int = NUM_STEPS, count: int = 4) -> list[GenerateRequest]:
    return [
        GenerateRequest(prompt=prompt, seed=seed, width=64, height=64, num_steps=num_steps)
        for seed, prompt in enumerate(PROMPTS[:count])
    ]


@pytest.fixture(scope="module")
def calibrated(model):
    seen = []
    result = calibrate(
        model.family,
        requests_of(),
        Target(speedup=1.5),
        progress=lambda phase, done, total: seen.append((phase, done, total)),
    )
    return result, seen


def test_every_offer_beats_fewer_steps_at_equal_calls(calibrated):
    result, _ = calibrated
    assert result.offers
    assert all(offer.psnr_mean_db > offer.fewer_steps_psnr_mean_db for offer in result.offers)


def test_the_chosen_offer_is_the_best_that_is_fast_enough(calibrated):
    result, _ = calibrated
    fast = [o for o in result.offers if o.ceiling >= 1.5]
    assert fast
    assert result.chosen == max(fast, key=lambda offer: offer.psnr_mean_db).name


def test_progress_counts_every_phase_to_its_end(calibrated):
    _, seen = calibrated
    last = {phase: (done, total) for phase, done, total in seen}
    assert list(last) == ["recording", "drawing", "drawing with fewer steps"]
    assert all(done == total for done, total in last.values())


def test_the_signal_is_measured_on_prompts_that_were_not_fitted(calibrated):
    result, _ = calibrated
    assert result.signal is not None
    assert result.signal.r2_held_out <= 1.0
    assert len(result.runs) == 4
    assert all(len(run.scores) == NUM_STEPS for run in result.runs)


def test_plots_are_drawn(calibrated, tmp_path):
    result, _ = calibrated
    paths = save_calibration_plots(tmp_path, result)
    assert [path.name for path in paths] == ["fit.png", "skips.png", "quality.png"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_adaptive_settings_of_a_calibration_run_with_their_probe(calibrated, model):
    result, _ = calibrated
    settings = next(
        r.mode.step_cache.settings
        for r in result.results
        if isinstance(r.mode.step_cache.settings.policy, Adaptive)
    )
    picture = model.generate(
        "a red hat", seed=1, num_steps=NUM_STEPS, width=64, height=64, step_cache=settings
    )
    scores = picture.receipt.step_cache.scores
    assert scores[0] is None
    assert all(score > 0 for score in scores[1:])
    assert picture.receipt.step_cache.num_invalid_scores == 0


def test_the_reference_compared_with_itself_is_equal(model):
    reference = Mode(name="reference", num_steps=4)
    off = Mode(name="off", num_steps=4, step_cache=StepCacheRequest(settings=parse_settings("off")))
    (result,) = compare_modes(model.family, requests_of(4, 1), reference, [off])
    assert (result.psnr_mean_db, result.ssim_mean, result.ceiling) == (100.0, 1.0, 1.0)


def test_the_command_line_writes_a_file_that_generate_takes(
    tiny_flux2_folder, tmp_path, monkeypatch, capsys
):
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tiny_flux2_folder, folder)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS))
    words = ["--prompts", "prompts.txt", "--model", str(folder), "--size", "64x64"]
    assert main(["calibrate", *words, "--steps", str(NUM_STEPS), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    calibration = read_calibration(folder / "step-cache.json")
    assert printed["calibration"]["chosen"] == calibration.chosen
    picture = intonaco.load(folder).generate(
        "a red hat", seed=1, num_steps=NUM_STEPS, width=64, height=64, step_cache="calibrated"
    )
    assert picture.receipt.step_cache.calibration == calibration.digest
    assert picture.receipt.step_cache.num_cached > 0


def test_the_command_line_compares_modes_into_a_report(
    tiny_flux2_folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.txt").write_text("a red hat\n")
    words = ["--prompts", "prompts.txt", "--model", str(tiny_flux2_folder), "--size", "64x64"]
    modes = ["--mode", "cadence:2,window=2-1", "--mode", "off", "--steps", "8"]
    assert main(["compare", *words, *modes, "--json"]) == 0
    rows = json.loads((tmp_path / "compare" / "report.json").read_text())["rows"]
    assert [row["mode"] for row in rows] == ["cadence:2,window=2-1", "off", "no cache"]
    assert rows[0]["psnr_gain_over_fewer_steps_db"] is not None
    assert json.loads(capsys.readouterr().out)["report"].endswith("report.json")


def test_the_shipped_file_keeps_what_it_promises_on_a_prompt_that_it_has_not_seen():
    model = intonaco.load()
    promised = read_calibration(shipped_folder() / FILE_NAME, model_digest=model.digest)
    (chosen,) = (offer for offer in promised.offers if offer.name == promised.chosen)
    prompt = "a doll with brown skin, long blonde hair, a green dress, at the beach"
    full, cached = (
        model.generate(prompt, seed=4, num_steps=promised.num_steps, step_cache=step_cache)
        for step_cache in (None, "calibrated")
    )
    assert cached.receipt.step_cache.num_calls == round(chosen.num_calls)
    # The file was asked for 40 dB on 95 % of prompts and measured more; 35 leaves room for one of
    # the other 5 %.
    assert psnr(cached.image, full.image) > 35
