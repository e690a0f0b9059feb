"""Which programs pictures of one shape need on FLUX.2, to compile or load them ahead of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from intonaco.backends.spec import ProgramSpec
from intonaco.errors import RequestError
from intonaco.families.flux2 import Flux2Family, check_size, shrunk_size
from intonaco.families.flux2_programs import ProgramDenoiser
from intonaco.families.flux2_shapes import DenoiserShape, denoiser_shape
from intonaco.families.picture_shape import PictureShape
from intonaco.programs.component import ProgramComponent


def picture_specs(family: Flux2Family, shape: PictureShape) -> list[ProgramSpec]:
    """Return the specs of every program that pictures of `shape` need, in the order of use.

    Raises RequestError where the model cannot draw that shape.
    """
    shapes = _Shapes.of(family, shape)
    components = _Components.of(family)
    return [
        components.text_encoder.spec_of(shapes.text),
        *(components.encoder.spec_of(pixels) for pixels in shapes.encoded),
        *components.denoiser.specs(shapes.denoiser).all,
        components.decoder.spec_of(shapes.latents),
    ]


def preload(family: Flux2Family, shape: PictureShape) -> None:
    """Load, and compile if need be, every program that pictures of `shape` need."""
    shapes = _Shapes.of(family, shape)
    components = _Components.of(family)
    # All at once first: one compiling process serves them all.
    components.denoiser.library.ensure(picture_specs(family, shape))
    components.text_encoder.program(shapes.text)
    for pixels in shapes.encoded:
        components.encoder.program(pixels)
    components.denoiser.chain(shapes.denoiser)
    components.decoder.program(shapes.latents)


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
    denoiser: DenoiserShape
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
        references = [_grid(size, side) for size in shape.reference_sizes]
        encoded = [(rows, columns)] * shape.is_edit + references
        return cls(
            text={"input_ids": (1, length), "attention_mask": (1, length)},
            encoded=tuple({"pixels": (1, 3, y * side, x * side)} for y, x in encoded),
            denoiser=denoiser_shape(
                num_drawn_tokens=rows * columns,
                num_reference_tokens=sum(y * x for y, x in references),
                num_text_tokens=length,
            ),
            latents={"latents": (1, family.config.token_channels, rows, columns)},
        )


def _grid(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Return rows and columns of tokens of a reference, shrunk and cropped as a request's is."""
    width, height = shrunk_size(*size)
    return height // side, width // side
