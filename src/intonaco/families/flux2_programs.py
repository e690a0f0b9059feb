"""FLUX.2 klein on programs: components over named tensors, in place of the eager modules.

Holds loaded programs by shape and chains them; a request leaves nothing behind. Imports no model
class, so a process that finds its programs in the store starts without diffusers' and transformers'
modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from intonaco.backends.base import Program
from intonaco.backends.spec import Precision
from intonaco.families.base import NamedTensors
from intonaco.families.checkpoint import Checkpoint, read_json
from intonaco.families.flux2 import Flux2Family, count_drawn_tokens
from intonaco.families.flux2_denoiser_specs import DenoiserSpecs, denoiser_specs
from intonaco.families.flux2_settings import (
    component_folders,
    flux2_config,
    flux2_defaults,
    max_sequence_length,
    out_layers,
)
from intonaco.families.flux2_shapes import DenoiserShape, denoiser_shape
from intonaco.families.flux2_specs import (
    activation_dtype,
    decoder_spec,
    encoder_spec,
    text_encoder_spec,
)
from intonaco.families.light_tokenizer import read_light_tokenizer
from intonaco.families.prompt import ChatTokenizer
from intonaco.families.weights import ComponentWeights, open_weights
from intonaco.programs.component import ProgramComponent
from intonaco.programs.library import ProgramLibrary

if TYPE_CHECKING:
    from intonaco.families.flux2_state_programs import SparseChain
    from intonaco.families.flux2_state_specs import SparseShape


@dataclass(frozen=True, slots=True)
class DenoiserChain:
    """The loaded and bound programs of one shape, in the order of calls."""

    prologue: Program
    double: tuple[Program, ...]
    single: tuple[Program, ...]
    epilogue: Program


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramDenoiser:
    """The denoiser as prologue, block groups and epilogue; same inputs as the eager module.

    Attributes:
        sparse_chains: loaded programs of `intonaco.families.flux2_state_programs`, by shape.
    """

    library: ProgramLibrary
    weights: ComponentWeights
    group_size: int | None = None
    _chains: dict[DenoiserShape, DenoiserChain] = field(
        default_factory=dict[DenoiserShape, DenoiserChain]
    )
    sparse_chains: dict[SparseShape, SparseChain] = field(
        default_factory=dict["SparseShape", "SparseChain"]
    )

    def __call__(self, inputs: NamedTensors, /) -> Tensor:
        """Return the prediction (1, I, C) for one step."""
        shape, bound = bounded_shape(inputs)
        chain = self.chain(shape)
        padded = {**inputs, **pad_image_tokens(inputs, shape)}
        names = (item.name for item in chain.prologue.spec.inputs)
        hidden, context, temb, mod_image, mod_text, mod_single, *rotary = chain.prologue(
            *(padded[name].contiguous() for name in names)
        )
        for program in chain.double:
            self._pause()
            hidden, context = program(hidden, context, mod_image, mod_text, *rotary, *bound)
        joint = torch.cat([context, hidden], dim=1)
        for program in chain.single:
            self._pause()
            (joint,) = program(joint, mod_single, *rotary, *bound)
        (prediction,) = chain.epilogue(joint, temb)
        return prediction[:, : inputs["hidden_states"].shape[1]]

    def interruptible(self, check: Callable[[], None]) -> ProgramDenoiser:
        """Return this denoiser, over the same loaded programs, with `check` before each group."""
        return replace(self, library=self.library.interruptible(check))

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


def bounded_shape(inputs: NamedTensors) -> tuple[DenoiserShape, tuple[Tensor, ...]]:
    """Return the shape that serves `inputs`, and the number of valid keys where some are padding."""
    num_tokens = inputs["hidden_states"].shape[1]
    num_text_tokens = inputs["encoder_hidden_states"].shape[1]
    num_drawn_tokens = count_drawn_tokens(inputs)
    shape = denoiser_shape(
        num_drawn_tokens=num_drawn_tokens,
        num_reference_tokens=num_tokens - num_drawn_tokens,
        num_text_tokens=num_text_tokens,
    )
    bound = (torch.tensor(num_text_tokens + num_tokens, device=inputs["img_ids"].device),)
    return shape, bound if shape.is_bounded else ()


def pad_image_tokens(inputs: NamedTensors, shape: DenoiserShape) -> dict[str, Tensor]:
    """Return the inputs that hold a row per image token, with rows of zeros up to `shape`."""
    missing = shape.num_image_tokens - inputs["hidden_states"].shape[1]
    if not missing:
        return {}
    return {
        name: functional.pad(inputs[name], (0, 0, 0, missing))
        for name in ("hidden_states", "img_ids")
    }


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


CONFIG_FOLDERS = {
    "text_encoder": "text_encoder", "denoiser": "transformer", "encoder": "vae", "decoder": "vae",
}  # fmt: skip


def load_flux2_programs(
    checkpoint: Checkpoint,
    library: ProgramLibrary,
    *,
    precision: Precision,
    device: torch.device,
    group_size: int | None = None,
) -> Flux2Family:
    """Return the family on programs. Weights are presharded at the first use of a checkpoint.

    Programs load when a shape is first asked for; `flux2_needs` names them ahead of the first request.
    Raises ArtifactDamagedError when presharded weights are damaged.
    """

    def preshard(folder: Path) -> None:
        # Imports every model class, which takes seconds and is needed here only.
        from intonaco.families.flux2_presharding import preshard_flux2

        preshard_flux2(checkpoint, folder, precision=precision)

    weights = open_weights(
        checkpoint,
        library,
        precision=precision,
        config_folders=CONFIG_FOLDERS,
        preshard=preshard,
    )
    folders = component_folders(checkpoint)
    denoiser = ProgramDenoiser(library=library, weights=weights["denoiser"], group_size=group_size)
    return Flux2Family(
        config=flux2_config(checkpoint),
        defaults=flux2_defaults(checkpoint),
        tokenizer=ChatTokenizer(
            read_light_tokenizer(folders["tokenizer"]),
            max_sequence_length=max_sequence_length(checkpoint),
            vocabulary=checkpoint.settings.vocabulary,
        ),
        scheduler_settings=read_json(folders["scheduler"] / "scheduler_config.json"),
        text_encoder=text_encoder_component(
            library, weights["text_encoder"], out_layers(checkpoint)
        ),
        denoiser=denoiser,
        encoder=encoder_component(library, weights["encoder"]),
        decoder=decoder_component(library, weights["decoder"]),
        dtype=torch.float32 if activation_dtype(precision) == "float32" else torch.bfloat16,
        device=device,
        backend=library.backend.name,
        precision=precision,
    )
