"""Sensitivity: what a small error of each template row does to the finished edit.

Importance by attention says which rows are looked at in one block. Sensitivity says what is left of it
in the result: it follows every error through all later blocks and steps. For a random direction u in
the space of finished latents, the gradient of <u, latents> with respect to a row of keys or values has
a squared length whose mean over u is the squared change of the latents per squared error of the row,
to first order. One backward pass per direction gives it for every step, block, row and kind at once.

Measured offline over profiling requests, as importance is; never needed to read a template.
Shape letters: U kinds (keys, values), S steps, B blocks, N template rows, d width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from intonaco.errors import RequestError
from intonaco.families.base import EditableFamily
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.families.template_state import KINDS, StateShape, StateSource
from intonaco.template.capture import TemplateState

DEFAULT_NUM_DIRECTIONS = 4


def measure_sensitivity(
    family: EditableFamily,
    template: TemplateState,
    requests: Sequence[GenerateRequest],
    *,
    num_directions: int = DEFAULT_NUM_DIRECTIONS,
) -> NDArray[np.float64]:
    """Return (U, S, B, N): mean squared change of the edit's latents per squared error of a row.

    Args:
        family: eager; gradients do not pass through programs.
        requests: profiling requests, by words or by references.
        num_directions: random directions per request.

    Memory holds what a backward pass needs of all steps of one edit of the edited tokens.
    """
    if not requests or num_directions < 1:
        raise RequestError(
            f"sensitivity needs 1 request and 1 direction or more, got {len(requests)} and "
            f"{num_directions}; 5 and {DEFAULT_NUM_DIRECTIONS} are enough"
        )
    shape = template.source.shape
    found = np.zeros((len(KINDS), shape.num_steps, shape.num_blocks, shape.num_rows))
    generator = torch.Generator().manual_seed(template.identity.seed)
    for request in requests:
        leaves = _Leaves(inner=template.source)
        latents = _edited_latents(family, template, request, leaves)
        for index in range(num_directions):
            direction = torch.randn(latents.shape, generator=generator).to(latents)
            is_last = index == num_directions - 1
            latents.backward(direction, retain_graph=not is_last)
            found += leaves.take_squared_gradients()
    return found / (len(requests) * num_directions)


def _edited_latents(
    family: EditableFamily,
    template: TemplateState,
    request: GenerateRequest,
    source: StateSource,
) -> Tensor:
    """Return the edited tokens' latents after the last step, (1, E, C), with their graph."""
    is_edited_I = template.tokens_YX.reshape(-1)
    reusing = state_runs(family).reusing(source, is_edited_I)
    prepared = reusing.prepare(request, reusing.encode(request))
    captured = reusing.draw_noise(_noise_request(template, request))
    changes = reusing.spread_mask(template.tokens_YX)
    clean = template.clean.to(prepared.latents)
    schedule = prepared.schedule
    latents = prepared.latents
    for step in range(schedule.num_steps + 1):
        kept = schedule.renoise(clean, captured, step)
        latents = torch.where(changes, latents, kept)
        if step < schedule.num_steps:
            prediction = reusing.guide(prepared, reusing.denoise(prepared, latents, step))
            latents = schedule.advance(prediction, latents, step)
    return latents[:, torch.from_numpy(np.flatnonzero(is_edited_I)).to(latents.device)]


def _noise_request(template: TemplateState, request: GenerateRequest) -> GenerateRequest:
    return GenerateRequest(
        prompt="",
        seed=template.identity.seed,
        image_index=template.identity.image_index,
        width=request.width,
        height=request.height,
        num_steps=request.num_steps,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaves:
    """A source whose keys and values collect gradients."""

    inner: StateSource
    units: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(
        default_factory=dict[tuple[int, int], tuple[Tensor, Tensor]]
    )

    @property
    def shape(self) -> StateShape:
        return self.inner.shape

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        key, value = (
            one.detach().float().clone().requires_grad_() for one in self.inner.read(step, block)
        )
        self.units[step, block] = (key, value)
        return key, value

    def take_squared_gradients(self) -> NDArray[np.float64]:
        """Return squared gradient lengths (U, S, B, N) and forget the gradients."""
        shape = self.shape
        found = np.zeros((len(KINDS), shape.num_steps, shape.num_blocks, shape.num_rows))
        for (step, block), unit in self.units.items():
            for kind, leaf in enumerate(unit):
                if leaf.grad is not None:
                    found[kind, step, block] = leaf.grad.double().square().sum(dim=1).numpy()
                    leaf.grad = None
        return found
