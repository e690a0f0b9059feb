"""Draws on a pretended device and on the host, and writes how far apart the results are, as JSON.

A process of its own: `python -m tests.support.pretend_edits CHECKPOINT`.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from intonaco.device.edit import TemplateSession
from intonaco.device.link import TemplateLink
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2 import Flux2Family
from intonaco.families.flux2_modules import load_flux2
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.families.template_state import StateShape
from intonaco.model import load
from intonaco.pipelines.edit import KeepTemplate, edit
from intonaco.pipelines.generate import GenerateResult, generate
from intonaco.template.capture import TemplateState, capture_in_memory
from intonaco.template.loading import load_template
from tests.support.catalog_servers import own_server
from tests.support.pretend_device import Pretend, pretended
from tests.support.studio import SMALL_FILES, build_studio, complete

REQUEST = GenerateRequest(prompt="a girl in red", seed=3, width=96, height=64, num_steps=3)
OTHER = replace(REQUEST, prompt="a tall boy", seed=11)
WORDS = "a tall girl in a blue dress"


def main(folder: Path) -> None:
    checkpoint = read_checkpoint(folder)
    host = load_flux2(checkpoint, dtype=torch.float32, device=torch.device("cpu"))
    state = capture(host)
    with pretended() as pretend:
        there = load_flux2(checkpoint, dtype=torch.float32, device=pretend.device)
        report = {
            "mixed": refusal(lambda: torch.zeros(2, 3, device=pretend.device) + torch.zeros(2, 3)),
            "generate": difference(generate(there, REQUEST), generate(host, REQUEST)),
            "dense": difference(dense(there, state), dense(host, state)),
            "sparse": difference(sparse(there, state), sparse(host, state)),
            "reference": difference(
                sparse(there, state, with_reference()), sparse(host, state, with_reference())
            ),
            "capture": state_difference(capture(there), state),
            "moves": moves_of_a_step(there, state, pretend),
            "streamed": streamed_difference(folder, pretend),
        }
    sys.stdout.write(json.dumps(report))


@dataclass(frozen=True)
class StateThere:
    """State that lies on the device already, as that of a streamed shard does."""

    units: dict[tuple[int, int], tuple[Tensor, Tensor]]
    shape: StateShape

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        return self.units[step, block]


def moves_of_a_step(family: Flux2Family, state: TemplateState, pretend: Pretend) -> list[str]:
    """Return what a sparse step and the edit's constraint after it move, with the state at hand."""
    shape = state.source.shape
    units = {
        (0, block): tuple(rows.to(pretend.device) for rows in state.source.read(0, block))
        for block in range(shape.num_blocks)
    }
    runs = state_runs(family).reusing(StateThere(units, shape), state.tokens_YX.reshape(-1))
    prepared = runs.prepare(OTHER, runs.encode(OTHER))
    keep = KeepTemplate(
        clean=state.clean.to(pretend.device), changes=family.spread_mask(state.tokens_YX)
    )
    pretend.moves.clear()
    prediction = runs.guide(prepared, runs.denoise(prepared, prepared.latents, 0))
    latents = prepared.schedule.advance(prediction, prepared.latents, 0)
    keep(prepared, latents, 1)
    return list(pretend.moves)


def streamed_difference(folder: Path, pretend: Pretend) -> int:
    """Return how far apart, in steps of a byte, a whole streamed edit there and a local one here are."""
    with TemporaryDirectory() as catalog:
        studio = build_studio(load(folder), Path(catalog))
        state = load_template(studio.template)
        here = studio.model.edit(state.picture, studio.mask_HW, template_state=state, prompt=WORDS)
        there = load(folder, device=str(pretend.device))
        with (
            own_server(studio.catalog) as server,
            TemplateLink(f"{server}/{studio.folder}") as link,
        ):
            edited = complete(TemplateSession(there, link, settings=SMALL_FILES), prompt=WORDS)
    images = [np.asarray(picture.image, dtype=np.int64) for picture in (edited.picture, here)]
    return int(np.abs(images[0] - images[1]).max())


def refusal(run: Callable[[], object]) -> str:
    try:
        run()
    except RuntimeError as error:
        return str(error)
    return ""


def picture() -> Image.Image:
    pixels = np.random.default_rng(1).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def with_reference() -> GenerateRequest:
    return replace(OTHER, references=(picture().resize((64, 80)),))


def capture(family: Flux2Family) -> TemplateState:
    tokens_YX = np.zeros((4, 6), dtype=bool)
    tokens_YX[1:3, 2:5] = True
    return capture_in_memory(
        family, REQUEST, picture=picture(), tokens_YX=tokens_YX, model_digest="0" * 64
    )


def sparse(
    family: Flux2Family, state: TemplateState, request: GenerateRequest = OTHER
) -> GenerateResult:
    return _edit(family, state, request, has_state=True)


def dense(family: Flux2Family, state: TemplateState) -> GenerateResult:
    return _edit(family, state, OTHER, has_state=False)


def _edit(
    family: Flux2Family, state: TemplateState, request: GenerateRequest, *, has_state: bool
) -> GenerateResult:
    reuse = state.reuse() if has_state else replace(state.reuse(), source=None)
    mask_HW = np.kron(state.tokens_YX, np.ones((16, 16), dtype=bool))
    drawn = edit(family, request, template=state.picture, mask_HW=mask_HW, reuse=reuse)
    assert drawn.generation is not None
    return drawn.generation


def difference(there: GenerateResult, here: GenerateResult) -> float:
    return float((there.latents.to("cpu") - here.latents).abs().max())


def state_difference(there: TemplateState, here: TemplateState) -> float:
    shape = here.source.shape
    return max(
        float((one - other).abs().max())
        for step in range(shape.num_steps)
        for block in range(shape.num_blocks)
        for one, other in zip(
            there.source.read(step, block), here.source.read(step, block), strict=True
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
