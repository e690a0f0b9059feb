"""Wan 2.1 on programs: components over named tensors, in place of the eager modules.

Holds loaded programs by shape and chains them; a request leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from intonaco.backends.base import Program
from intonaco.backends.spec import Precision, ProgramSpec
from intonaco.errors import UnsupportedError
from intonaco.families.base import NamedTensors
from intonaco.families.checkpoint import Checkpoint
from intonaco.families.wan import WanFamily
from intonaco.families.wan_specs import (
    FilmShape,
    WanDenoiserSpecs,
    first_chunk_spec,
    next_chunk_spec,
    wan_denoiser_specs,
    wan_text_encoder_spec,
)
from intonaco.families.weights import ComponentWeights, open_weights
from intonaco.programs.component import ProgramComponent
from intonaco.programs.library import ProgramLibrary

CONFIG_FOLDERS = {"text_encoder": "text_encoder", "denoiser": "transformer", "decoder": "vae"}


def load_wan_programs(
    checkpoint: Checkpoint,
    library: ProgramLibrary,
    *,
    precision: Precision,
    device: torch.device,
    group_size: int | None = None,
) -> WanFamily:
    """Return the family on programs. Raises UnsupportedError for another precision than float32."""
    if precision != "float32":
        raise UnsupportedError(
            f"dtype must be float32 for Wan 2.1 on programs, got {precision!r}; use it, or "
            "backend='eager'"
        )
    # Tokenizer and scheduler are those of the libraries, so nothing is gained by a light start.
    from intonaco.families.wan_modules import assemble_wan

    weights = _weights(checkpoint, library)
    components = {
        "text_encoder": _text_encoder(library, weights["text_encoder"]),
        "denoiser": ProgramWanDenoiser(
            library=library, weights=weights["denoiser"], group_size=group_size
        ),
        "decoder": ProgramWanDecoder(library=library, weights=weights["decoder"]),
    }
    return assemble_wan(
        checkpoint,
        components,
        dtype=torch.float32,
        device=device,
        backend=library.backend.name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramWanDenoiser:
    """The denoiser as prologue, block groups and epilogue; same inputs as the eager module."""

    library: ProgramLibrary
    weights: ComponentWeights
    group_size: int | None = None
    _chains: dict[FilmShape, tuple[Program, ...]] = field(
        default_factory=dict[FilmShape, tuple[Program, ...]]
    )

    def __call__(self, inputs: NamedTensors, /) -> Tensor:
        """Return the prediction (1, C, F, Y, X) for one step."""
        latents, text = inputs["hidden_states"], inputs["encoder_hidden_states"]
        num_frames, rows, columns = latents.shape[2:]
        shape = FilmShape(
            num_frames=num_frames, rows=rows, columns=columns, num_text_tokens=text.shape[1]
        )
        prologue, *groups, epilogue = self.chain(shape)
        # Schedulers count time in integers or in floats; the embedding reads floats.
        timestep = inputs["timestep"].to(torch.float32)
        hidden, *streams, temb = prologue(latents.contiguous(), timestep, text.contiguous())
        for program in groups:
            if self.library.between_calls is not None:
                self.library.between_calls()
            (hidden,) = program(hidden, *streams)
        return epilogue(hidden, temb)[0]

    def interruptible(self, check: Callable[[], None]) -> ProgramWanDenoiser:
        """Return this denoiser, over the same loaded programs, with `check` before each group."""
        return replace(self, library=self.library.interruptible(check))

    def specs(self, shape: FilmShape) -> WanDenoiserSpecs:
        """Return the programs for `shape`."""
        return wan_denoiser_specs(
            self.weights.config, self.weights.header, shape, group_size=self.group_size
        )

    def chain(self, shape: FilmShape) -> tuple[Program, ...]:
        """Return the bound programs for `shape`, loaded at its first use."""
        if shape not in self._chains:
            specs = self.specs(shape)
            programs = self.library.load(specs.all)
            tensors = self.weights.tensors
            for program in (programs[0], programs[-1]):
                program.bind(tensors)
            for program, group in zip(programs[1:-1], specs.groups, strict=True):
                program.bind({name: tensors[source] for name, source in group.names().items()})
            self._chains[shape] = tuple(programs)
        return self._chains[shape]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramWanDecoder:
    """The decoder as two programs, which serve films of every length."""

    library: ProgramLibrary
    weights: ComponentWeights
    _programs: dict[tuple[int, int], tuple[Program, ...]] = field(
        default_factory=dict[tuple[int, int], tuple[Program, ...]]
    )

    def __call__(self, inputs: NamedTensors, /) -> Tensor:
        """Return frames (1, 3, 1 + 4 * (F - 1), 8Y, 8X) of latents (1, C, F, Y, X)."""
        from intonaco.families.wan_modules import ChunkedDecoder

        rows, columns = inputs["latents"].shape[3:]
        first, following = self.programs(rows, columns)
        return ChunkedDecoder(first=first, following=following)(inputs)

    def specs(self, rows: int, columns: int) -> list[ProgramSpec]:
        """Return the programs of the first chunk and of every later one."""
        return [
            make_spec(self.weights.config, self.weights.header, rows=rows, columns=columns)
            for make_spec in (first_chunk_spec, next_chunk_spec)
        ]

    def programs(self, rows: int, columns: int) -> tuple[Program, ...]:
        """Return the bound programs for latent planes of one size."""
        if (rows, columns) not in self._programs:
            programs = tuple(self.library.load(self.specs(rows, columns)))
            for program in programs:
                program.bind(self.weights.tensors)
            self._programs[rows, columns] = programs
        return self._programs[rows, columns]


def _text_encoder(library: ProgramLibrary, weights: ComponentWeights) -> ProgramComponent:
    return ProgramComponent(
        library=library,
        tensors=weights.tensors,
        spec_of=lambda shapes: wan_text_encoder_spec(
            weights.config, weights.header, num_text_tokens=shapes["input_ids"][1]
        ),
    )


def _weights(checkpoint: Checkpoint, library: ProgramLibrary) -> Mapping[str, ComponentWeights]:
    def preshard(folder: Path) -> None:
        from intonaco.families.wan_presharding import preshard_wan

        preshard_wan(checkpoint, folder)

    return open_weights(
        checkpoint,
        library,
        precision="float32",
        config_folders=CONFIG_FOLDERS,
        preshard=preshard,
    )
