"""One generation's walk down the noise levels, over one of diffusers' schedulers.

Built anew for each generation: a scheduler counts its steps, and no count may cross requests.
"""

from typing import Protocol

import torch


class Scheduler(Protocol):
    """What is used of a diffusers scheduler after its `set_timesteps`."""

    timesteps: torch.Tensor
    sigmas: torch.Tensor

    def set_begin_index(self, begin_index: int = 0) -> None: ...

    def step(
        self,
        model_output: torch.Tensor,
        timestep: torch.Tensor,
        sample: torch.Tensor,
        *,
        return_dict: bool,
    ) -> tuple[torch.Tensor]: ...


class Schedule:
    """Sigmas and timesteps of one generation, and the sampler's update.

    Attributes:
        timesteps: (S,) float32, the denoiser's time inputs.
        sigmas: (S + 1,) float32 on the host, high to low, the last one 0.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        """Take over `scheduler`, whose timesteps are set and which nobody else uses."""
        scheduler.set_begin_index(0)
        self._scheduler = scheduler
        self._next_step = 0
        self.timesteps = scheduler.timesteps
        self.sigmas = scheduler.sigmas.to("cpu")

    @property
    def num_steps(self) -> int:
        return len(self.timesteps)

    def advance(self, prediction: torch.Tensor, latents: torch.Tensor, step: int) -> torch.Tensor:
        """Return the latents at sigmas[step + 1] from those at sigmas[step], in their layout."""
        assert step == self._next_step, f"steps come in order: {self._next_step} next, not {step}"
        self._next_step += 1
        timestep = self.timesteps[step]
        return self._scheduler.step(prediction, timestep, latents, return_dict=False)[0]

    def renoise(self, clean: torch.Tensor, noise: torch.Tensor, index: int) -> torch.Tensor:
        """Return `clean` at noise level sigmas[index]: sigma * noise + (1 - sigma) * clean."""
        sigma = self.sigmas[index].to(clean.device, clean.dtype)
        return sigma * noise + (1.0 - sigma) * clean
