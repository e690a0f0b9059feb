"""The probe of FLUX.2: input projection, time embedding, first normalization and modulation.

The same arithmetic as the denoiser's own, stopped before the first attention; no text reaches it.

Shape letters: I image tokens (those of references included), C channels of a token, M model dim.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from intonaco.backends.spec import DtypeName, Precision, ProgramSpec, TensorSpec
from intonaco.programs.groups import plain
from intonaco.programs.int8 import quantize_linears
from intonaco.programs.presharding import Header
from intonaco.stepcache.probe import ScoredFeatures

BUILDER = "intonaco.stepcache.flux2_probe:build_probe"
INPUTS = ("hidden_states", "timestep")
PREFIXES = ("x_embedder.", "time_guidance_embed.", "double_stream_modulation_img.")


class Flux2Features(nn.Module):
    """What the first block's attention would read of the image tokens: (1, I, M)."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.x_embedder = transformer.x_embedder
        self.time_guidance_embed = transformer.time_guidance_embed
        self.double_stream_modulation_img = transformer.double_stream_modulation_img
        self.norm1 = nn.LayerNorm(
            transformer.x_embedder.out_features,
            elementwise_affine=False,
            eps=transformer.config["eps"],
        )

    def forward(self, hidden_states: Tensor, timestep: Tensor, **_: Tensor) -> Tensor:
        temb = self.time_guidance_embed(timestep.to(hidden_states.dtype) * 1000, None)
        shift, scale = self.double_stream_modulation_img(temb).unsqueeze(1).chunk(6, dim=-1)[:2]
        return (1 + scale) * self.norm1(self.x_embedder(hidden_states)) + shift


def build_probe(
    *, precision: str, transformer_config: dict[str, Any], num_image_tokens: int
) -> nn.Module:
    """Return the probe as a module to compile: latents and time in, the score out."""
    from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel

    transformer = Flux2Transformer2DModel(**transformer_config)
    dtype = torch.float32 if _dtype(precision) == "float32" else torch.bfloat16
    features = quantize_linears(Flux2Features(transformer).to(dtype), precision)
    shape = (1, num_image_tokens, transformer.x_embedder.out_features)
    # The state stays float32: it is compared, and differences of rounded numbers are noise.
    return ScoredFeatures(features, INPUTS, shape)


def probe_spec(
    config: Mapping[str, Any], header: Header, *, num_image_tokens: int, precision: Precision
) -> ProgramSpec:
    """Return the probe's program for pictures of `num_image_tokens`.

    It binds the tensors of the denoiser's file under their names with `features.` before them.
    """
    dtype = _dtype(precision)
    model_dim = config["num_attention_heads"] * config["attention_head_dim"]
    weights = [
        item.model_copy(update={"name": f"features.{item.name}"})
        for item in header.under(*PREFIXES)
    ]
    return ProgramSpec(
        component="denoiser/probe",
        builder=BUILDER,
        config={
            "transformer_config": {**plain(config), "num_layers": 0, "num_single_layers": 0},
            "num_image_tokens": num_image_tokens,
        },
        precision=precision,
        inputs=(
            TensorSpec(
                name="hidden_states",
                shape=(1, num_image_tokens, config["in_channels"]),
                dtype=dtype,
            ),
            TensorSpec(name="timestep", shape=(1,), dtype=dtype),
        ),
        outputs=(TensorSpec(name="score", shape=(1, 1), dtype="float32"),),
        constants=(
            *weights,
            TensorSpec(
                name="previous",
                shape=(1, num_image_tokens, model_dim),
                dtype="float32",
                role="state",
            ),
        ),
        sources=("intonaco.programs.int8", "intonaco.stepcache.probe"),
        libraries=("diffusers",),
    )


def _dtype(precision: str) -> DtypeName:
    """Return the dtype of activations."""
    return "float32" if precision in {"float32", "w8a8"} else "bfloat16"
