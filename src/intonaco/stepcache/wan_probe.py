"""The probe of Wan: patch embedding, time embedding, first normalization and modulation.

The same arithmetic as the denoiser's own, stopped before the first attention; no text reaches it.

Shape letters: F latent frames, Y x X rows and columns of a latent plane, L tokens, M model dim.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from intonaco.backends.spec import ProgramSpec, TensorSpec
from intonaco.programs.groups import plain
from intonaco.programs.presharding import Header
from intonaco.stepcache.probe import ScoredFeatures

BUILDER = "intonaco.stepcache.wan_probe:build_probe"
INPUTS = ("hidden_states", "timestep")
# Prefix of a tensor's name in the denoiser's file, and in the probe.
NAMES = {
    "patch_embedding.": "features.patch_embedding.",
    "condition_embedder.time_embedder.": "features.time_embedder.",
    "condition_embedder.time_proj.": "features.time_proj.",
    "blocks.0.scale_shift_table": "features.scale_shift_table",
}


class WanFeatures(nn.Module):
    """What the first block's self-attention would read: (1, L, M)."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        embedder = transformer.condition_embedder
        self.patch_embedding = transformer.patch_embedding
        self.timesteps_proj = embedder.timesteps_proj
        self.time_embedder = embedder.time_embedder
        self.act_fn = embedder.act_fn
        self.time_proj = embedder.time_proj
        self.scale_shift_table = transformer.blocks[0].scale_shift_table
        self.norm1 = nn.LayerNorm(
            self.scale_shift_table.shape[-1],
            elementwise_affine=False,
            eps=transformer.config["eps"],
        )

    def forward(self, hidden_states: Tensor, timestep: Tensor, **_: Tensor) -> Tensor:
        tokens = self.patch_embedding(hidden_states).flatten(2).transpose(1, 2)
        frequencies = self.timesteps_proj(timestep).to(tokens.dtype)
        modulation = self.time_proj(self.act_fn(self.time_embedder(frequencies)))
        table = self.scale_shift_table + modulation.unflatten(1, (6, -1)).to(torch.float32)
        shift, scale = table.chunk(6, dim=1)[:2]
        return self.norm1(tokens.to(torch.float32)) * (1 + scale) + shift


def build_probe(
    *, precision: str, transformer_config: dict[str, Any], shape: list[int]
) -> nn.Module:
    """Return the probe as a module to compile: latents and time in, the score out."""
    from diffusers.models.transformers.transformer_wan import WanTransformer3DModel

    transformer = WanTransformer3DModel(**transformer_config)
    return ScoredFeatures(WanFeatures(transformer), INPUTS, tuple(shape))


def probe_spec(
    config: Mapping[str, Any], header: Header, *, latent_shape: tuple[int, ...]
) -> ProgramSpec:
    """Return the probe's program for latents (1, C, F, Y, X), in float32."""
    model_dim = config["num_attention_heads"] * config["attention_head_dim"]
    num_tokens = 1
    for side, patch in zip(latent_shape[2:], config["patch_size"], strict=True):
        num_tokens *= side // patch
    shape = (1, num_tokens, model_dim)
    weights = tuple(
        item.model_copy(update={"name": probe_name(item.name)}) for item in header.under(*NAMES)
    )
    return ProgramSpec(
        component="denoiser/probe",
        builder=BUILDER,
        config={
            "transformer_config": {**plain(config), "num_layers": 1},
            "shape": list(shape),
        },
        inputs=(
            TensorSpec(name="hidden_states", shape=latent_shape, dtype="float32"),
            TensorSpec(name="timestep", shape=(1,), dtype="float32"),
        ),
        outputs=(TensorSpec(name="score", shape=(1, 1), dtype="float32"),),
        constants=(
            *weights,
            TensorSpec(name="previous", shape=shape, dtype="float32", role="state"),
        ),
        sources=("intonaco.stepcache.probe",),
        libraries=("diffusers",),
    )


def probe_name(name: str) -> str:
    """Return the probe's name of a tensor of the denoiser's file; other names unchanged."""
    for prefix, renamed in NAMES.items():
        if name.startswith(prefix):
            return renamed + name.removeprefix(prefix)
    return name
