"""Which programs pictures of one shape need on FLUX.2, to compile or load them ahead of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from intonaco.backends.spec import ProgramSpec
from intonaco.errors import RequestError
from intonaco.families.flux2 import (
    Flux2Family,
    check_reference_size,
    check_size,
    shrunk_size,
)
from intonaco.families.flux2_programs import ProgramDenoiser
from intonaco.families.flux2_shapes import DenoiserShape, denoiser_shape
from intonaco.families.flux2_state_programs import chain_specs
from intonaco.families.flux2_state_specs import SparseShape, sparse_shape
from intonaco.families.picture_shape import PictureShape
from intonaco.programs.component import ProgramComponent


def picture_specs(family: Flux2Family, shape: PictureShape) -> list[ProgramSpec]:
    """Return the specs of every program that pictures of `shape` need, in the order of use.

    Edits on a template need the chains of edited tokens and, for what its state does not bring, the
    dense ones; both without references too: so this machine is timed before a template streams in.
    Raises RequestError where the model cannot draw that shape, PictureError where it cannot read a
    reference of such a size.
    """
    shapes = _Shapes.of(family, shape)
    components = _Components.of(family)
    chains = [
        *(chain_specs(components.denoiser, sparse) for sparse in shapes.sparse),
        *(components.denoiser.specs(dense) for dense in shapes.dense),
    ]
    return [
        components.text_encoder.spec_of(shapes.text),
        *(components.encoder.spec_of(pixels) for pixels in shapes.encoded),
        *(spec for chain in chains for spec in chain.all),
        components.decoder.spec_of(shapes.latents),
    ]


@dataclass(frozen=True, slots=True)
class _Components:
    """The four components of a family on programs."""

    text_encoder: ProgramComponent
    denoiser: ProgramDenoiser
    encoder: ProgramComponent
    decoder: ProgramComponent

    @classmethod
    def of(cls, family: Flux2Family) -> _Components:
        components: list[Any] = [
            family.text_encoder, family.denoiser, family.encoder, family.decoder,
        ]  # fmt: skip
        return cls(*components)


@dataclass(frozen=True, slots=True)
class _Shapes:
    """The shapes of each component's inputs for pictures of one shape."""

    text: Mapping[str, tuple[int, ...]]
    encoded: tuple[Mapping[str, tuple[int, ...]], ...]
    sparse: tuple[SparseShape, ...]
    dense: tuple[DenoiserShape, ...]
    latents: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, family: Flux2Family, shape: PictureShape) -> _Shapes:
        side, length = family.config.token_pixels, family.tokenizer.max_sequence_length
        check_size(*shape.size, multiple=side)
        if shape.num_frames != 1:
            raise RequestError(
                f"num_frames must be 1 for {family.name}, got {shape.num_frames}; it draws pictures"
            )
        width, height = shape.size
        rows, columns = height // side, width // side
        for size in shape.reference_sizes:
            check_reference_size(*size, name="reference_size")
        references = [_grid(size, side) for size in shape.reference_sizes]
        encoded = [(rows, columns)] * shape.is_edit + references
        sparse, dense = _denoiser_shapes(
            shape.num_edited_tokens,
            num_drawn_tokens=rows * columns,
            num_reference_tokens=sum(y * x for y, x in references),
            num_text_tokens=length,
        )
        return cls(
            text={"input_ids": (1, length), "attention_mask": (1, length)},
            encoded=tuple({"pixels": (1, 3, y * side, x * side)} for y, x in encoded),
            sparse=sparse,
            dense=dense,
            latents={"latents": (1, family.config.token_channels, rows, columns)},
        )


def _denoiser_shapes(
    num_edited_tokens: int | None,
    *,
    num_drawn_tokens: int,
    num_reference_tokens: int,
    num_text_tokens: int,
) -> tuple[tuple[SparseShape, ...], tuple[DenoiserShape, ...]]:
    """Return the shapes of edits on a template, none without one, and those of dense steps."""
    if num_edited_tokens is None:
        dense = denoiser_shape(
            num_drawn_tokens=num_drawn_tokens,
            num_reference_tokens=num_reference_tokens,
            num_text_tokens=num_text_tokens,
        )
        return (), (dense,)
    if not 1 <= num_edited_tokens <= num_drawn_tokens:
        raise RequestError(
            f"num_edited_tokens must be in 1..{num_drawn_tokens}, the tokens of the picture, got "
            f"{num_edited_tokens}; pass how many the template leaves to edits"
        )
    sparse = tuple(
        sparse_shape(
            num_drawn_tokens=num_drawn_tokens,
            num_edited_tokens=num_edited_tokens,
            num_reference_tokens=count,
            num_text_tokens=num_text_tokens,
        )
        for count in dict.fromkeys((0, num_reference_tokens))
    )
    return sparse, tuple(one.dense for one in sparse)


def _grid(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Return rows and columns of tokens of a reference, shrunk and cropped as a request's is."""
    width, height = shrunk_size(*size)
    return height // side, width // side
