"""Joins the step cache to a family: what one generation asks of it, and the probe that serves it.

The probe takes the denoiser's place in the family for one call, so it gets the very tensors that the
denoiser would, in whatever layout the family has, and returns its score in place of a prediction.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from intonaco.errors import RequestError
from intonaco.families.base import Family, Prepared
from intonaco.pipelines.probes import make_change_probe
from intonaco.pipelines.receipt import StepCacheRecord
from intonaco.stepcache.calibration import read_calibration
from intonaco.stepcache.controller import Observer, Probe, StepCacheRun, StepKind
from intonaco.stepcache.settings import (
    GRAMMAR,
    OFF,
    Offered,
    StepCacheSettings,
    parse_recorded,
    parse_settings,
)


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


StepCacheChoice = str | StepCacheSettings | StepCacheRequest | None
"""How a caller asks: by text, by settings, or by a whole request; None = off."""


def resolve_step_cache(
    choice: StepCacheChoice, *, calibration_file: Path, model_digest: Callable[[], str]
) -> StepCacheRequest | None:
    """Return the request that `choice` means; reads the calibration file only where it names one.

    Raises RequestError for a text that means nothing, CalibrationError for an unusable file.
    """
    if choice is None or isinstance(choice, StepCacheRequest):
        return choice
    if isinstance(choice, StepCacheSettings):
        return StepCacheRequest(settings=choice)
    if not isinstance(choice, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers err
        raise RequestError(
            f"step_cache must be a text or settings, got {type(choice).__name__}; write {GRAMMAR}"
        )
    parsed = parse_settings(choice)
    if isinstance(parsed, Offered):
        calibration = read_calibration(calibration_file, model_digest=model_digest())
        parsed = replace(calibration.settings(parsed), calibration=calibration.digest)
    return StepCacheRequest(settings=parsed)


def repeat_step_cache(record: StepCacheRecord | None) -> StepCacheRequest | None:
    """Return the request that repeats the decisions of a receipt."""
    if record is None:
        return None
    settings = replace(parse_recorded(record.settings), calibration=record.calibration)
    return StepCacheRequest(settings=settings, repeats=tuple(record.steps))


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
