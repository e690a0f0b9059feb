"""Cancels a generation within a step: before it, and between the calls of a denoiser on programs.

A call of a compiled program holds Python's global lock, so nothing can act while it runs; a denoiser
of several calls says so by its `interruptible`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from intonaco.errors import GenerationCancelled
from intonaco.families.base import Family
from intonaco.programs.library import Interruptible

IsCancelled = Callable[[], bool]
"""Asked before each step and between the calls within it; True stops the generation."""


def interruptible(
    family: Family, is_cancelled: IsCancelled | None, step: int, num_steps: int
) -> Family:
    """Return the family to take `step` with; GenerationCancelled now, or from within the step."""
    if is_cancelled is None:
        return family

    def check() -> None:
        if is_cancelled():
            raise GenerationCancelled(f"cancelled within step {step + 1} of {num_steps}")

    check()
    parts: Any = family
    found = {
        name: component.interruptible(check)
        for name in ("denoiser", "step_denoiser")
        if isinstance(component := getattr(parts, name, None), Interruptible)
    }
    return replace(parts, **found) if found else family
