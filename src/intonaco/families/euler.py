"""The flow-matching Euler sampler, equal to diffusers' in its plain settings, without importing it.

A process that draws from stored programs would otherwise spend more time importing diffusers than
drawing. Settings beyond the plain ones are left to diffusers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

# Settings under which the sampler is more than what stands here; each must be off.
UNUSUAL = (
    "invert_sigmas", "shift_terminal", "stochastic_sampling", "use_beta_sigmas",
    "use_exponential_sigmas", "use_karras_sigmas",
)  # fmt: skip


def is_plain(settings: Mapping[str, Any]) -> bool:
    """Say whether `PlainEuler` does all that a scheduler with these settings does."""
    is_exponential = settings.get("time_shift_type", "exponential") == "exponential"
    return is_exponential and not any(settings.get(name) for name in UNUSUAL)


class PlainEuler:
    """Sigmas, timesteps and the update of one generation. Built anew for each."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        sigmas: NDArray[np.floating[Any]],
        mu: float,
        device: torch.device,
    ) -> None:
        """Shift `sigmas` (S,) by the settings' constant, or by `mu` where shifting is dynamic."""
        unshifted = sigmas.astype(np.float32)
        if settings.get("use_dynamic_shifting", False):
            # One Python float in each operation, so that numpy keeps float32 as the reference does.
            shifted = math.exp(mu) / (math.exp(mu) + (1 / unshifted - 1) ** 1.0)
        else:
            shift = settings.get("shift", 1.0)
            shifted = shift * unshifted / (1 + (shift - 1) * unshifted)
        on_device = torch.from_numpy(shifted).to(dtype=torch.float32, device=device)
        self.timesteps = on_device * settings.get("num_train_timesteps", 1000)
        self.sigmas = torch.cat([on_device, torch.zeros(1, device=device)])
        self._step = 0

    def set_begin_index(self, begin_index: int = 0) -> None:
        """Start at step `begin_index`."""
        self._step = begin_index

    def step(
        self,
        model_output: torch.Tensor,
        timestep: torch.Tensor,
        sample: torch.Tensor,
        *,
        return_dict: bool,
    ) -> tuple[torch.Tensor]:
        """Return the sample at the next sigma, updated in float32, in the prediction's dtype."""
        change = self.sigmas[self._step + 1] - self.sigmas[self._step]
        self._step += 1
        return ((sample.to(torch.float32) + change * model_output).to(model_output.dtype),)
