"""Which programs films of one shape need on Wan 2.1, to compile them ahead of a request."""

from __future__ import annotations

from typing import Any

from intonaco.backends.spec import ProgramSpec
from intonaco.errors import RequestError
from intonaco.families.picture_shape import PictureShape
from intonaco.families.request import GenerateRequest
from intonaco.families.wan import WanFamily
from intonaco.families.wan_specs import FilmShape


def film_specs(family: WanFamily, shape: PictureShape) -> list[ProgramSpec]:
    """Return the specs of every program that films of `shape` need, in the order of use.

    Raises RequestError where the model cannot draw that shape.
    """
    if shape.reference_sizes or shape.is_edit or shape.num_edited_tokens is not None:
        raise RequestError(
            f"reference sizes, edits and templates are not for {family.name}; it draws films from "
            "words alone"
        )
    width, height = shape.size
    family.check(
        GenerateRequest(
            prompt="", seed=0, num_steps=1, width=width, height=height, num_frames=shape.num_frames
        )
    )
    pixels, length = family.config.pixels_per_latent, family.config.max_sequence_length
    rows, columns = height // pixels, width // pixels
    film = FilmShape(
        num_frames=(shape.num_frames - 1) // family.config.frames_per_latent + 1,
        rows=rows,
        columns=columns,
        num_text_tokens=length,
    )
    text_encoder: Any = family.text_encoder
    denoiser: Any = family.denoiser
    decoder: Any = family.decoder
    return [
        text_encoder.spec_of({"input_ids": (1, length), "attention_mask": (1, length)}),
        *denoiser.specs(film).all,
        *decoder.specs(rows, columns),
    ]
