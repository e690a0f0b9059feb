import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler

from intonaco.families.schedule import Schedule


def schedule_of(num_steps: int) -> Schedule:
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(num_steps)
    return Schedule(scheduler)


def test_a_schedule_has_one_more_sigma_than_steps_and_ends_in_zero():
    schedule = schedule_of(5)

    assert (schedule.num_steps, len(schedule.sigmas), schedule.sigmas[-1].item()) == (5, 6, 0.0)


def test_renoised_at_the_first_sigma_is_noise_and_at_the_last_is_clean():
    schedule = schedule_of(5)
    clean, noise = torch.randn(1, 4, 2), torch.randn(1, 4, 2)

    assert torch.equal(schedule.renoise(clean, noise, 0), noise)
    assert torch.equal(schedule.renoise(clean, noise, 5), clean)


def test_steps_out_of_order_are_our_own_mistake():
    with pytest.raises(AssertionError, match="0 next, not 1"):
        schedule_of(5).advance(torch.zeros(1), torch.zeros(1), 1)
