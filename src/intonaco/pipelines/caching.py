"""Joins the step cache to a family: what one generation asks of it, and the probe that serves it.

The probe takes the denoiser's place in the family for one call, so it gets the very tensors that the
denoiser would, in whatever layout the family has, and returns its score in place of a prediction.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from intonaco.errors import RequestError
from intonaco.families.base import Family, Prepared
from intonaco.pipelines.probes import make_change_probe
from intonaco.stepcache.controller import Observer, Probe, StepCacheRun, StepKind
from intonaco.stepcache.settings import OFF, StepCacheSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCacheRequest:
    """What one generation asks of the step cache.

    Attributes:
        repeats: decisions of an earlier run to repeat, one per step.
        observe: called after each step with what the denoiser saw and what was used.
        has_probe: ask the probe at each step even where the policy does not need it.
    """

    settings: StepCacheSettings = OFF
    repeats: tuple[StepKind, ...] | None = None
    observe: Observer | None = None
    has_probe: bool = False


def start_step_cache(
    family: Family, prepared: Prepared, request: StepCacheRequest | None
) -> StepCacheRun | None:
    """Return the step cache of one generation, or None where it has nothing to do.

    Raises RequestError where the policy needs a probe that this family does not have.
    """
    if request is None or (request.settings.is_off and request.observe is None):
        return None
    needs_probe = request.has_probe or (request.settings.needs_probe and request.repeats is None)
    return StepCacheRun(
        request.settings,
        tuple(float(sigma) for sigma in prepared.schedule.sigmas),
        probe=_host_probe(family, prepared) if needs_probe else None,
        repeats=request.repeats,
        observe=request.observe,
        reset_steps=expert_starts(prepared),
    )


def expert_starts(prepared: Prepared) -> frozenset[int]:
    """Return the steps at which another expert of the denoiser takes over."""
    return frozenset(cast("tuple[int, ...]", getattr(prepared, "expert_starts", ())))


def _host_probe(family: Family, prepared: Prepared) -> Probe:
    """Return the probe as a function of latents and step, its state empty."""
    parts: Any = family
    probe = make_change_probe(family)
    if probe is None:
        raise RequestError(
            f"step cache policy adaptive needs a change probe, and there is none for "
            f"{family.name} on this backend; choose cadence or online-delta"
        )
    probe.reset()
    probing: Family = replace(parts, denoiser=probe)
    # Text and guidance do not reach the probed prefix, so one branch says all.
    probed = replace(prepared, branches=prepared.branches[:1])

    def ask(latents: torch.Tensor, step: int) -> float:
        return float(probing.denoise(probed, latents, step)[0].reshape(()))

    return ask
