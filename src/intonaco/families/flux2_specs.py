"""The programs of FLUX.2 klein around its denoiser, as specs: text encoder, encoder, decoder.

A pure function of the checkpoint's configuration, its tensors' shapes and the shapes of a request.
Imports neither torch nor a model class. The denoiser's are in `flux2_denoiser_specs`.

Shape letters: T text tokens, M hidden size of the text encoder, C channels of a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intonaco.backends.spec import DtypeName, Precision, ProgramSpec, TensorSpec
from intonaco.programs.groups import plain, value
from intonaco.programs.presharding import Header

BUILDERS = "intonaco.families.flux2_builders"
SOURCES = ("intonaco.families.flux2_modules", "intonaco.programs.int8")


def activation_dtype(precision: str) -> DtypeName:
    """Return the dtype of activations between layers."""
    return "float32" if precision in {"float32", "w8a8"} else "bfloat16"


def plain_precision(precision: Precision) -> Precision:
    """Return the precision of a component that keeps no 8-bit weights."""
    return "float32" if activation_dtype(precision) == "float32" else "bfloat16"


def text_encoder_spec(
    config: Mapping[str, Any],
    header: Header,
    *,
    out_layers: tuple[int, ...],
    num_text_tokens: int,
    precision: Precision = "float32",
) -> ProgramSpec:
    """Return the text encoder's program: ids and mask (1, T) to embeddings (1, T, layers * M)."""
    tokens = (1, num_text_tokens)
    width = len(out_layers) * config["hidden_size"]
    return ProgramSpec(
        component="text_encoder",
        builder=f"{BUILDERS}:build_text_encoder",
        config={"text_config": plain(config), "out_layers": list(out_layers)},
        precision=precision,
        inputs=(
            TensorSpec(name="input_ids", shape=tokens, dtype="int64"),
            TensorSpec(name="attention_mask", shape=tokens, dtype="int64"),
        ),
        outputs=(value("embeddings", (*tokens, width), activation_dtype(precision)),),
        constants=header.under(""),
        sources=SOURCES,
        libraries=("transformers", "diffusers"),
    )


def decoder_spec(
    config: Mapping[str, Any],
    header: Header,
    *,
    rows: int,
    columns: int,
    precision: Precision = "float32",
) -> ProgramSpec:
    """Return the decoder's program: latents (1, C, rows, columns) to pixels (1, 3, H, W)."""
    return _autoencoder_spec("decoder", config, header, rows, columns, precision)


def encoder_spec(
    config: Mapping[str, Any],
    header: Header,
    *,
    rows: int,
    columns: int,
    precision: Precision = "float32",
) -> ProgramSpec:
    """Return the encoder's program: pixels (1, 3, H, W) to latents (1, C, rows, columns)."""
    return _autoencoder_spec("encoder", config, header, rows, columns, precision)


def _autoencoder_spec(
    component: str,
    config: Mapping[str, Any],
    header: Header,
    rows: int,
    columns: int,
    precision: Precision,
) -> ProgramSpec:
    dtype = activation_dtype(precision)
    pixels_per_token = 2 ** len(config["block_out_channels"])
    latents = value("latents", (1, 4 * config["latent_channels"], rows, columns), dtype)
    height, width = rows * pixels_per_token, columns * pixels_per_token
    pixels = value("pixels", (1, 3, height, width), dtype)
    inputs, outputs = (latents, pixels) if component == "decoder" else (pixels, latents)
    return ProgramSpec(
        component=component,
        builder=f"{BUILDERS}:build_{component}",
        config={"autoencoder_config": plain(config)},
        # Convolutions keep whole weights: they are a small part, and the most delicate one.
        precision=plain_precision(precision),
        inputs=(inputs,),
        outputs=(outputs,),
        constants=header.under(""),
        sources=SOURCES,
        libraries=("diffusers",),
    )
