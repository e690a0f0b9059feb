"""The loop on a family without a model: what is called, when, and what can stop it."""

import itertools

import pytest
import torch

from intonaco.errors import GenerationCancelled
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.generate import StepEvent, generate
from tests.support.counting_family import CountingFamily

REQUEST = GenerateRequest(prompt="", seed=0, width=8, height=8, num_steps=3)


def test_the_loop_reads_like_its_recipe():
    family = CountingFamily()

    generate(family, REQUEST)

    steps = [call for step in range(3) for call in (f"denoise {step}", "guide")]
    assert family.calls == ["check", "encode", "prepare", *steps, "decode"]


def test_a_constant_velocity_is_followed_from_noise_to_picture():
    # Velocity 1 from sigma 1 to 0 moves the latents by -1 in all, in any number of steps.
    assert torch.allclose(generate(CountingFamily(), REQUEST).latents, torch.tensor(-1.0))


def test_two_branches_are_guided_to_one_prediction():
    # 0 + 3 * (1 - 0) = velocity 3.
    latents = generate(CountingFamily(num_branches=2), REQUEST).latents
    assert torch.allclose(latents, torch.tensor(-3.0))


def test_progress_hears_of_each_step_with_its_time():
    ticks = itertools.count()
    events: list[StepEvent] = []

    result = generate(
        CountingFamily(), REQUEST, progress=events.append, clock=lambda: float(next(ticks))
    )

    assert [(event.index, event.num_steps, event.elapsed_s) for event in events] == [
        (0, 3, 1.0),
        (1, 3, 2.0),
        (2, 3, 3.0),
    ]
    assert result.step_ms == (1000.0, 1000.0, 1000.0)


def test_progress_that_returns_false_stops_before_the_next_step():
    family = CountingFamily()

    with pytest.raises(GenerationCancelled, match="after step 2 of 3"):
        generate(family, REQUEST, progress=lambda event: event.index < 1)
    assert "denoise 2" not in family.calls


def test_progress_that_returns_nothing_lets_the_loop_go_on():
    assert len(generate(CountingFamily(), REQUEST, progress=lambda event: None).step_ms) == 3


def test_what_progress_raises_reaches_the_caller():
    def stop(event: StepEvent) -> None:
        raise GenerationCancelled("enough")

    with pytest.raises(GenerationCancelled, match="enough"):
        generate(CountingFamily(), REQUEST, progress=stop)


def test_a_constraint_sees_the_start_and_every_noise_level_after_it():
    seen: list[int] = []

    def hold(prepared, latents, sigma_index):
        seen.append(sigma_index)
        return latents + 1

    latents = generate(CountingFamily(), REQUEST, constraint=hold).latents

    assert seen == [0, 1, 2, 3]
    assert torch.allclose(latents, torch.tensor(4.0 - 1.0))


def test_the_familys_warnings_come_back_with_the_result():
    assert generate(CountingFamily(), REQUEST).warnings == ("a warning",)
