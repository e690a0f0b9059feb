"""Builds the modules that become Wan 2.1's programs, from diffusers' own submodules.

Runs where programs are compiled, and behind the eager reference. float32 only: in 16 bits the
reference keeps some layers in float32, which these modules do not yet follow.
"""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from diffusers.models.transformers.transformer_wan import (
    WanTransformer3DModel,
    WanTransformerBlock,
)
from torch import Tensor, nn
from transformers import UMT5Config, UMT5EncoderModel

from intonaco.families.wan_modules import FirstChunk, NextChunk, WanPromptEncoder


def build_text_encoder(*, precision: str, text_config: dict[str, Any]) -> nn.Module:
    """The text encoder, zero on padding."""
    text_model: Any = UMT5EncoderModel(UMT5Config(**text_config))
    return WanPromptEncoder(text_model.encoder)


def build_prologue(*, precision: str, transformer_config: dict[str, Any]) -> nn.Module:
    """From latents, time and text to what the blocks read, and the time embedding."""
    return _Prologue(WanTransformer3DModel(**transformer_config))


def build_block_group(*, precision: str, num_blocks: int, **config: Any) -> nn.Module:
    """A run of blocks."""
    num_heads, head_dim = config.pop("num_attention_heads"), config.pop("attention_head_dim")
    blocks = [
        WanTransformerBlock(dim=num_heads * head_dim, num_heads=num_heads, **config)
        for _ in range(num_blocks)
    ]
    return _BlockGroup(blocks)


def build_epilogue(
    *, precision: str, transformer_config: dict[str, Any], latent_shape: list[int]
) -> nn.Module:
    """From tokens to the prediction, in the latents' layout."""
    return _Epilogue(WanTransformer3DModel(**transformer_config), latent_shape)


def build_first_chunk(*, precision: str, autoencoder_config: dict[str, Any]) -> nn.Module:
    """The decoder of the first latent frame."""
    return FirstChunk(_decoding_half(autoencoder_config))


def build_next_chunk(*, precision: str, autoencoder_config: dict[str, Any]) -> nn.Module:
    """The decoder of every later latent frame."""
    return NextChunk(_decoding_half(autoencoder_config))


def _decoding_half(config: dict[str, Any]) -> AutoencoderKLWan:
    autoencoder: Any = AutoencoderKLWan(**config)
    autoencoder.encoder = None
    autoencoder.quant_conv = None
    return autoencoder


class _Prologue(nn.Module):
    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.patch_embedding = transformer.patch_embedding
        self.condition_embedder = transformer.condition_embedder
        self.rope = transformer.rope

    def forward(
        self, hidden_states: Tensor, timestep: Tensor, encoder_hidden_states: Tensor
    ) -> tuple[Tensor, ...]:
        rotary_cos, rotary_sin = self.rope(hidden_states)
        hidden = self.patch_embedding(hidden_states).flatten(2).transpose(1, 2).contiguous()
        temb, modulation, context, _ = self.condition_embedder(timestep, encoder_hidden_states)
        return hidden, context, modulation.unflatten(1, (6, -1)), rotary_cos, rotary_sin, temb


class _BlockGroup(nn.Module):
    def __init__(self, blocks: list[WanTransformerBlock]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(
        self,
        hidden: Tensor,
        context: Tensor,
        modulation: Tensor,
        rotary_cos: Tensor,
        rotary_sin: Tensor,
    ) -> Tensor:
        for block in self.blocks:
            hidden = block(hidden, context, modulation, (rotary_cos, rotary_sin))
        return hidden


class _Epilogue(nn.Module):
    def __init__(self, transformer: Any, latent_shape: list[int]) -> None:
        super().__init__()
        self.norm_out = transformer.norm_out
        self.proj_out = transformer.proj_out
        self.scale_shift_table = transformer.scale_shift_table
        self.patch_size: tuple[int, ...] = tuple(transformer.config.patch_size)
        self.grid = tuple(
            size // patch for size, patch in zip(latent_shape, self.patch_size, strict=True)
        )

    def forward(self, hidden: Tensor, temb: Tensor) -> Tensor:
        shift, scale = (self.scale_shift_table + temb.unsqueeze(1)).chunk(2, dim=1)
        normed = (self.norm_out(hidden.float()) * (1 + scale) + shift).type_as(hidden)
        patches = self.proj_out(normed).unflatten(2, (*self.patch_size, -1))
        # (B, F', Y', X', f, y, x, C) to (B, C, F', f, Y', y, X', x)
        grid = patches.unflatten(1, self.grid).permute(0, 7, 1, 4, 2, 5, 3, 6)
        return torch.flatten(grid.flatten(6, 7).flatten(4, 5), 2, 3)
