"""One generation's step cache, driven by a made-up denoiser."""

import math

import pytest
import torch

from intonaco.errors import StepCacheError
from intonaco.stepcache.controller import StepCacheRun
from intonaco.stepcache.policies import Adaptive, Cadence, Curve, Off, OnlineDelta, Window
from intonaco.stepcache.report import StepCacheReport
from intonaco.stepcache.settings import StepCacheSettings
from tests.support.comparison import assert_close

IDENTITY = Curve(coefficients=(0.0, 1.0), center=0.0, scale=1.0, low=0.0, high=1e9)
ROUNDING = "float32 rounding of a few sums of order one"


def sigmas(num_steps: int) -> tuple[float, ...]:
    return tuple(1.0 - step / num_steps for step in range(num_steps + 1))


def settings(policy, estimator: str = "slope", first: int = 2, last: int = 1, **more):
    return StepCacheSettings(
        policy=policy, estimator=estimator, window=Window(first=first, last=last), **more
    )


def field(latents: torch.Tensor, sigma: float) -> torch.Tensor:
    """A smooth made-up velocity."""
    return torch.sin(3 * latents) + sigma * torch.cos(latents)


def walk(run: StepCacheRun, num_steps: int, shape=(1, 4), dtype=torch.float32):
    """Draw with `run`; return final latents, predictions used, and how often the denoiser ran."""
    levels = sigmas(num_steps)
    latents = torch.linspace(-1, 1, math.prod(shape)).reshape(shape).to(dtype)
    used, calls = [], []
    for step in range(num_steps):

        def full(latents=latents, step=step):
            calls.append(step)
            return field(latents, levels[step])

        prediction = run.predict(step, latents, full)
        used.append(prediction)
        latents = latents + (levels[step + 1] - levels[step]) * prediction
    return latents, used, calls


def kinds(run: StepCacheRun) -> str:
    return "".join({"full": "F", "cached": "c", "forced": "f"}[r.kind] for r in run.records)


def report(configured: StepCacheSettings, run: StepCacheRun) -> StepCacheReport:
    return StepCacheReport(settings=configured, records=run.records)


def test_off_gives_the_bits_that_the_denoiser_gave():
    run = StepCacheRun(settings(Off()), sigmas(6))
    latents, _, calls = walk(run, 6)
    plain, levels = torch.linspace(-1, 1, 4).reshape(1, 4), sigmas(6)
    for step in range(6):
        plain = plain + (levels[step + 1] - levels[step]) * field(plain, levels[step])
    assert torch.equal(latents, plain)
    assert calls == list(range(6))


def test_the_slope_estimate_adds_the_last_change_to_the_output_used_last():
    run = StepCacheRun(settings(Cadence()), sigmas(8))
    _, used, _ = walk(run, 8)
    assert kinds(run) == "FFFcFcFF"
    assert torch.equal(used[3], used[2] + (used[2] - used[1]))
    # The change at step 4 is measured from the estimate at step 3, not from the full step 2.
    assert torch.equal(used[5], used[4] + (used[4] - used[3]))


def test_a_cached_step_never_calls_the_denoiser():
    run = StepCacheRun(settings(Cadence(period=3, num_cached=2)), sigmas(12))
    _, _, calls = walk(run, 12)
    assert kinds(run) == "FFFccFccFccF"
    assert calls == [0, 1, 2, 5, 8, 11]


def test_nothing_is_cached_before_two_full_steps_exist():
    run = StepCacheRun(settings(Cadence(period=4, num_cached=3), first=0), sigmas(8))
    walk(run, 8)
    assert kinds(run) == "FfccFccF"
    assert run.records[1].reason == "history"


def test_a_quadratic_estimate_waits_for_three_full_steps():
    run = StepCacheRun(settings(Cadence(period=4, num_cached=3), "quadratic", first=0), sigmas(8))
    walk(run, 8)
    assert kinds(run) == "FffcFccF"


def test_the_cap_on_a_row_of_cached_steps_forces_a_full_one():
    run = StepCacheRun(settings(Cadence(period=4, num_cached=3), max_cached_in_row=1), sigmas(12))
    walk(run, 12)
    assert kinds(run) == "FFFcfcFcfcFF"
    assert run.records[4].reason == "row"


def test_online_delta_measures_against_the_output_used_and_rests_after_a_cached_step():
    run = StepCacheRun(settings(OnlineDelta(alpha=5.0)), sigmas(8))
    _, used, _ = walk(run, 8)
    assert kinds(run) == "FFcFcFcF"
    expected = (used[3] - used[2]).abs().mean() / used[2].abs().mean()
    assert_close(run.records[3].score, expected, atol=1e-6, why=ROUNDING)
    assert run.records[2].score is None


def test_online_delta_of_an_output_of_zeros_is_finite():
    run = StepCacheRun(settings(OnlineDelta()), sigmas(4))
    latents = torch.zeros(1, 2)
    for step in range(4):
        run.predict(step, latents, lambda: torch.zeros(1, 2))
    assert [record.score for record in run.records] == [None, 0.0, 0.0, 0.0]


def test_adaptive_runs_full_when_the_sum_reaches_the_threshold_and_starts_again():
    configured = settings(Adaptive(threshold=0.35, curve=IDENTITY), max_cached_in_row=9)
    run = StepCacheRun(configured, sigmas(12), probe=lambda latents, step: 0.1)
    walk(run, 12)
    assert kinds(run) == "FFcccFcccFcF"


def test_the_first_score_of_a_generation_is_ignored():
    scores = iter([math.nan, 7.0, 8.0, 9.0])
    configured = settings(Adaptive(threshold=1.0, curve=IDENTITY))
    run = StepCacheRun(configured, sigmas(4), probe=lambda latents, step: next(scores))
    walk(run, 4)
    assert [record.score for record in run.records] == [None, 7.0, 8.0, 9.0]
    assert report(configured, run).num_invalid_scores == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_score_that_is_no_number_means_a_full_step_and_a_counted_warning(bad):
    configured = settings(Adaptive(threshold=1.0, curve=IDENTITY))
    run = StepCacheRun(
        configured, sigmas(10), probe=lambda latents, step: bad if step == 4 else 0.1
    )
    walk(run, 10)
    assert run.records[4].kind == "full"
    assert run.records[4].reason == "score"
    assert report(configured, run).num_invalid_scores == 1
    assert "1 of 10 change scores were not numbers" in report(configured, run).warnings[0]


def test_the_probe_is_called_at_every_step_cached_ones_too():
    seen = []
    run = StepCacheRun(
        settings(Adaptive(threshold=1.0, curve=IDENTITY)),
        sigmas(6),
        probe=lambda latents, step: seen.append(step) or 0.1,
    )
    walk(run, 6)
    assert "c" in kinds(run)
    assert seen == list(range(6))


def test_adaptive_without_a_probe_is_refused():
    with pytest.raises(StepCacheError, match="adaptive needs a probe"):
        StepCacheRun(settings(Adaptive(threshold=1.0, curve=IDENTITY)), sigmas(6))


def test_latents_of_another_shape_are_an_error_and_not_a_wrong_picture():
    run = StepCacheRun(settings(Cadence()), sigmas(6))
    run.predict(0, torch.zeros(1, 4), lambda: torch.zeros(1, 4))
    with pytest.raises(StepCacheError, match=r"keep their shape \(1, 4\)"):
        run.predict(1, torch.zeros(1, 6), lambda: torch.zeros(1, 6))


def test_an_output_of_another_shape_than_the_latents_is_an_error():
    run = StepCacheRun(settings(Cadence()), sigmas(6))
    with pytest.raises(StepCacheError, match="shape of the latents"):
        run.predict(0, torch.zeros(1, 4), lambda: torch.zeros(1, 1))


def test_a_backend_that_reuses_the_memory_of_its_output_changes_no_estimate():
    buffer = torch.zeros(1, 2)
    fresh = StepCacheRun(settings(Cadence(), "linear"), sigmas(6))
    reusing = StepCacheRun(settings(Cadence(), "linear"), sigmas(6))
    latents = torch.zeros(1, 2)
    for step in range(6):
        value = torch.full((1, 2), float(step * step))
        expected = fresh.predict(step, latents, lambda value=value: value.clone())
        used = reusing.predict(step, latents, lambda value=value: buffer.copy_(value))
        assert torch.equal(used, expected)


def test_another_expert_starts_with_an_empty_state():
    run = StepCacheRun(
        settings(Cadence(period=3, num_cached=2)), sigmas(12), reset_steps=frozenset({6})
    )
    walk(run, 12)
    assert kinds(run) == "FFFccFffFccF"
    assert run.records[6].reason == "history"


def test_state_and_estimates_are_float32_whatever_the_latents_are():
    run = StepCacheRun(settings(Cadence(), "linear"), sigmas(8))
    _, used, _ = walk(run, 8, dtype=torch.bfloat16)
    assert {output.dtype for output in used} == {torch.bfloat16}
    exact = used[2].float() + (used[2].float() - used[1].float())
    assert_close(used[3], exact, atol=0.02, why="one rounding to bfloat16 of values below 2")


def test_recorded_decisions_are_repeated_without_a_probe():
    configured = settings(Adaptive(threshold=0.25, curve=IDENTITY))
    first = StepCacheRun(configured, sigmas(10), probe=lambda latents, step: 0.1)
    drawn, _, _ = walk(first, 10)
    repeats = tuple(record.kind for record in first.records)
    again = StepCacheRun(configured, sigmas(10), repeats=repeats)
    redrawn, _, _ = walk(again, 10)
    assert torch.equal(drawn, redrawn)
    assert kinds(again) == kinds(first)


def test_decisions_of_a_run_of_another_length_cannot_be_repeated():
    with pytest.raises(StepCacheError, match="one decision per step, got 2 for 6 steps"):
        StepCacheRun(settings(Cadence()), sigmas(6), repeats=("full", "full"))


def test_a_correction_brings_the_final_latents_closer():
    exact, _, _ = walk(StepCacheRun(settings(Off()), sigmas(40)), 40)
    errors = {}
    for estimator in ("slope", "linear", "linear-corrected"):
        run = StepCacheRun(settings(Cadence(period=3, num_cached=2), estimator), sigmas(40))
        errors[estimator] = float((walk(run, 40)[0] - exact).abs().max())
    assert errors["linear-corrected"] < min(errors["linear"], errors["slope"]) / 2


def test_a_sampler_that_does_not_follow_the_velocity_gets_no_correction():
    levels, finals = sigmas(20), {}
    for estimator in ("linear", "linear-corrected"):
        run = StepCacheRun(settings(Cadence(), estimator), levels)
        latents = torch.linspace(-1, 1, 4).reshape(1, 4)
        previous = torch.zeros(1, 4)
        for step in range(20):
            prediction = run.predict(
                step, latents, lambda latents=latents, step=step: field(latents, levels[step])
            )
            # Two outputs at once, as multistep samplers take them.
            latents = latents + (levels[step + 1] - levels[step]) * (
                0.7 * prediction + 0.3 * previous
            )
            previous = prediction
        finals[estimator] = latents
    assert torch.equal(finals["linear"], finals["linear-corrected"])
