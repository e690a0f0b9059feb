"""FLUX.2 klein on programs: components over named tensors, in place of the eager modules.

Holds loaded programs by shape and chains them; a request leaves nothing behind. Imports no model
class, so a process that finds its programs in the store starts without diffusers' and transformers'
modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from intonaco.backends.base import Program
from intonaco.backends.spec import Precision
from intonaco.families.base import NamedTensors
from intonaco.families.flux2_specs import (
    DenoiserShape,
    DenoiserSpecs,
    decoder_spec,
    denoiser_specs,
    encoder_spec,
    text_encoder_spec,
)
from intonaco.programs.component import ProgramComponent
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.presharding import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentWeights:
    """A component's configuration and presharded tensors."""

    config: Mapping[str, Any]
    header: Header
    tensors: Mapping[str, Tensor]
    precision: Precision


@dataclass(frozen=True, slots=True)
class DenoiserChain:
    """The loaded and bound programs of one shape, in the order of calls."""

    prologue: Program
    double: tuple[Program, ...]
    single: tuple[Program, ...]
    epilogue: Program


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramDenoiser:
    """The denoiser as prologue, block groups and epilogue; same inputs as the eager module."""

    library: ProgramLibrary
    weights: ComponentWeights
    group_size: int | None = None
    _chains: dict[DenoiserShape, DenoiserChain] = field(
        default_factory=dict[DenoiserShape, DenoiserChain]
    )

    def __call__(self, inputs: NamedTensors, /) -> Tensor:
        """Return the prediction (1, I, C) for one step."""
        chain = self.chain(
            DenoiserShape(
                num_image_tokens=inputs["hidden_states"].shape[1],
                num_text_tokens=inputs["encoder_hidden_states"].shape[1],
            )
        )
        names = (item.name for item in chain.prologue.spec.inputs)
        hidden, context, temb, mod_image, mod_text, mod_single, *rotary = chain.prologue(
            *(inputs[name].contiguous() for name in names)
        )
        for program in chain.double:
            self._pause()
            hidden, context = program(hidden, context, mod_image, mod_text, *rotary)
        joint = torch.cat([context, hidden], dim=1)
        for program in chain.single:
            self._pause()
            (joint,) = program(joint, mod_single, *rotary)
        (prediction,) = chain.epilogue(joint, temb)
        return prediction

    def specs(self, shape: DenoiserShape) -> DenoiserSpecs:
        """Return the programs for `shape`."""
        return denoiser_specs(
            self.weights.config,
            self.weights.header,
            shape,
            precision=self.weights.precision,
            group_size=self.group_size,
        )

    def chain(self, shape: DenoiserShape) -> DenoiserChain:
        """Return the bound programs for `shape`, loaded at its first use."""
        if shape not in self._chains:
            self._chains[shape] = self._load(self.specs(shape))
        return self._chains[shape]

    def _load(self, specs: DenoiserSpecs) -> DenoiserChain:
        tensors = self.weights.tensors
        prologue, *blocks, epilogue = self.library.load(specs.all)
        prologue.bind(tensors)
        epilogue.bind(tensors)
        for program, group in zip(blocks, (*specs.double, *specs.single), strict=True):
            program.bind({name: tensors[source] for name, source in group.names().items()})
        num_double = len(specs.double)
        return DenoiserChain(
            prologue, tuple(blocks[:num_double]), tuple(blocks[num_double:]), epilogue
        )

    def _pause(self) -> None:
        if self.library.between_calls is not None:
            self.library.between_calls()


def text_encoder_component(
    library: ProgramLibrary, weights: ComponentWeights, out_layers: tuple[int, ...]
) -> ProgramComponent:
    """Return the text encoder: ids and mask (1, T) to embeddings (1, T, layers * M)."""
    return ProgramComponent(
        library=library,
        tensors=weights.tensors,
        spec_of=lambda shapes: text_encoder_spec(
            weights.config,
            weights.header,
            out_layers=out_layers,
            num_text_tokens=shapes["input_ids"][1],
            precision=weights.precision,
        ),
    )


def decoder_component(library: ProgramLibrary, weights: ComponentWeights) -> ProgramComponent:
    """Return the decoder: latents (1, C, Y, X) to pixels (1, 3, H, W)."""
    return ProgramComponent(
        library=library,
        tensors=weights.tensors,
        spec_of=lambda shapes: decoder_spec(
            weights.config,
            weights.header,
            rows=shapes["latents"][2],
            columns=shapes["latents"][3],
            precision=weights.precision,
        ),
    )


def encoder_component(library: ProgramLibrary, weights: ComponentWeights) -> ProgramComponent:
    """Return the encoder: pixels (1, 3, H, W) to latents (1, C, Y, X)."""
    pixels_per_token = 2 ** len(weights.config["block_out_channels"])
    return ProgramComponent(
        library=library,
        tensors=weights.tensors,
        spec_of=lambda shapes: encoder_spec(
            weights.config,
            weights.header,
            rows=shapes["pixels"][2] // pixels_per_token,
            columns=shapes["pixels"][3] // pixels_per_token,
            precision=weights.precision,
        ),
    )
