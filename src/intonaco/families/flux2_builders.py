"""Builds the modules that become FLUX.2 klein's programs, from diffusers' own submodules.

Runs where programs are compiled, and behind the eager reference. Every function returns a module
from plain tensors to plain tensors; names of its constants are those that `flux2_specs` declares.
"""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_flux2 import AutoencoderKLFlux2
from diffusers.models.transformers.transformer_flux2 import (
    Flux2SingleTransformerBlock,
    Flux2Transformer2DModel,
    Flux2TransformerBlock,
)
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3Model

from intonaco.families.flux2_modules import PictureDecoder, PictureEncoder, PromptEncoder
from intonaco.families.flux2_specs import activation_dtype
from intonaco.programs.int8 import quantize_linears


def build_prologue(*, precision: str, transformer_config: dict[str, Any]) -> nn.Module:
    """From latents, time, text and positions to streams, modulations and rotary tables."""
    return _finish(_Prologue(_edges(transformer_config)), precision)


def build_epilogue(
    *, precision: str, transformer_config: dict[str, Any], num_text_tokens: int
) -> nn.Module:
    """From the joint stream to the prediction of the image tokens."""
    return _finish(_Epilogue(_edges(transformer_config), num_text_tokens), precision)


def build_double_group(*, precision: str, num_blocks: int, **config: Any) -> nn.Module:
    """A run of double-stream blocks."""
    blocks = [Flux2TransformerBlock(**_block_arguments(config)) for _ in range(num_blocks)]
    return _finish(_DoubleGroup(blocks), precision)


def build_single_group(*, precision: str, num_blocks: int, **config: Any) -> nn.Module:
    """A run of single-stream blocks."""
    blocks = [Flux2SingleTransformerBlock(**_block_arguments(config)) for _ in range(num_blocks)]
    return _finish(_SingleGroup(blocks), precision)


def build_text_encoder(
    *, precision: str, text_config: dict[str, Any], out_layers: list[int]
) -> nn.Module:
    """The text model without its language head."""
    language_model = Qwen3Model(Qwen3Config(**text_config))
    return _finish(PromptEncoder(language_model, tuple(out_layers)), precision)


def build_decoder(*, precision: str, autoencoder_config: dict[str, Any]) -> nn.Module:
    """The autoencoder's decoding half."""
    return _finish(PictureDecoder(_half(autoencoder_config, "encoder", "quant_conv")), precision)


def build_encoder(*, precision: str, autoencoder_config: dict[str, Any]) -> nn.Module:
    """The autoencoder's encoding half."""
    return _finish(
        PictureEncoder(_half(autoencoder_config, "decoder", "post_quant_conv")), precision
    )


def _half(config: dict[str, Any], *unused: str) -> AutoencoderKLFlux2:
    autoencoder = AutoencoderKLFlux2(**config)
    # A counter that only training reads.
    autoencoder.bn.num_batches_tracked = None
    for name in unused:
        setattr(autoencoder, name, None)
    return autoencoder


def _edges(config: dict[str, Any]) -> Flux2Transformer2DModel:
    return Flux2Transformer2DModel(**config)


def _block_arguments(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "dim": config["num_attention_heads"] * config["attention_head_dim"],
        "bias": False,
        **config,
    }


def _finish(module: nn.Module, precision: str) -> nn.Module:
    dtype = torch.float32 if activation_dtype(precision) == "float32" else torch.bfloat16
    return quantize_linears(module.to(dtype), precision)


class _Prologue(nn.Module):
    def __init__(self, transformer: Flux2Transformer2DModel) -> None:
        super().__init__()
        self.x_embedder = transformer.x_embedder
        self.context_embedder = transformer.context_embedder
        self.time_guidance_embed = transformer.time_guidance_embed
        self.double_stream_modulation_img = transformer.double_stream_modulation_img
        self.double_stream_modulation_txt = transformer.double_stream_modulation_txt
        self.single_stream_modulation = transformer.single_stream_modulation
        self.pos_embed = transformer.pos_embed

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        img_ids: Tensor,
        txt_ids: Tensor,
    ) -> tuple[Tensor, ...]:
        temb = self.time_guidance_embed(timestep.to(hidden_states.dtype) * 1000, None)
        image_cos, image_sin = self.pos_embed(img_ids[0])
        text_cos, text_sin = self.pos_embed(txt_ids[0])
        return (
            self.x_embedder(hidden_states),
            self.context_embedder(encoder_hidden_states),
            temb,
            self.double_stream_modulation_img(temb),
            self.double_stream_modulation_txt(temb),
            self.single_stream_modulation(temb),
            torch.cat([text_cos, image_cos]),
            torch.cat([text_sin, image_sin]),
        )


class _DoubleGroup(nn.Module):
    def __init__(self, blocks: list[Flux2TransformerBlock]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(
        self,
        hidden: Tensor,
        context: Tensor,
        mod_image: Tensor,
        mod_text: Tensor,
        rotary_cos: Tensor,
        rotary_sin: Tensor,
    ) -> tuple[Tensor, Tensor]:
        for block in self.blocks:
            context, hidden = block(
                hidden_states=hidden,
                encoder_hidden_states=context,
                temb_mod_img=mod_image,
                temb_mod_txt=mod_text,
                image_rotary_emb=(rotary_cos, rotary_sin),
            )
        return hidden, context


class _SingleGroup(nn.Module):
    def __init__(self, blocks: list[Flux2SingleTransformerBlock]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(
        self, joint: Tensor, mod_single: Tensor, rotary_cos: Tensor, rotary_sin: Tensor
    ) -> Tensor:
        for block in self.blocks:
            joint = block(
                hidden_states=joint,
                encoder_hidden_states=None,
                temb_mod=mod_single,
                image_rotary_emb=(rotary_cos, rotary_sin),
            )
        return joint


class _Epilogue(nn.Module):
    def __init__(self, transformer: Flux2Transformer2DModel, num_text_tokens: int) -> None:
        super().__init__()
        self.norm_out = transformer.norm_out
        self.proj_out = transformer.proj_out
        self.num_text_tokens = num_text_tokens

    def forward(self, joint: Tensor, temb: Tensor) -> Tensor:
        return self.proj_out(self.norm_out(joint[:, self.num_text_tokens :], temb))
