"""Builds the modules that become FLUX.2's programs for edited tokens only, over the dense ones.

Runs where programs are compiled. Every shape is static: edited tokens fill a bucket, the last of them
repeated, and all image tokens have a slot among the keys, whether fresh or the template's.

Shape letters: Q query tokens (edited, then references), T text tokens, I image tokens, K = T + I +
references, all keys, M model dim, D head dim, b blocks of a group.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from intonaco.attention.joint import key_bias
from intonaco.families import flux2_builders
from intonaco.families.flux2_state_attention import (
    BlockState,
    DoubleStateAttention,
    SingleStateAttention,
    keep_state_attention,
    merge_with_template,
)


def build_prologue(*, precision: str, transformer_config: dict[str, Any]) -> nn.Module:
    """From latents of query tokens to streams, modulations, and rotary tables of queries and keys."""
    return _Prologue(
        flux2_builders.build_prologue(precision=precision, transformer_config=transformer_config)
    )


def build_double_group(*, precision: str, num_blocks: int, **config: Any) -> nn.Module:
    """A run of double-stream blocks."""
    group = flux2_builders.build_double_group(precision=precision, num_blocks=num_blocks, **config)
    return _DoubleGroup(group, config["attention_head_dim"])


def build_single_group(
    *, precision: str, num_blocks: int, num_text_tokens: int, **config: Any
) -> nn.Module:
    """A run of single-stream blocks."""
    group = flux2_builders.build_single_group(precision=precision, num_blocks=num_blocks, **config)
    return _SingleGroup(group, config["attention_head_dim"], num_text_tokens)


class _Prologue(nn.Module):
    def __init__(self, prologue: nn.Module) -> None:
        super().__init__()
        self.prologue = prologue

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        img_ids: Tensor,
        txt_ids: Tensor,
        tokens: Tensor,
    ) -> tuple[Tensor, ...]:
        """`tokens` are the image (and reference) tokens of `hidden_states`; `img_ids` are of all."""
        *streams, key_cos, key_sin = self.prologue(
            hidden_states, timestep, encoder_hidden_states, img_ids, txt_ids
        )
        num_text = encoder_hidden_states.shape[1]
        queries = torch.cat([torch.arange(num_text, device=tokens.device), num_text + tokens])
        return (*streams, key_cos[queries], key_sin[queries], key_cos, key_sin)


class _DoubleGroup(nn.Module):
    def __init__(self, group: Any, head_dim: int) -> None:
        super().__init__()
        self.blocks = keep_state_attention(group.blocks, DoubleStateAttention())
        self.head_dim = head_dim

    def forward(
        self,
        hidden: Tensor,
        context: Tensor,
        mod_image: Tensor,
        mod_text: Tensor,
        rotary_cos: Tensor,
        rotary_sin: Tensor,
        slots: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_length: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        bias = _bias(keys, slots, rotary_cos, valid_length)
        for index, block in enumerate(self.blocks):
            num_text = context.shape[1]
            merge = merge_with_template(slots, keys[index], values[index], num_text, self.head_dim)
            state = BlockState(num_text_tokens=num_text, merge=merge, bias=bias)
            context, hidden = block(
                hidden_states=hidden,
                encoder_hidden_states=context,
                temb_mod_img=mod_image,
                temb_mod_txt=mod_text,
                image_rotary_emb=(rotary_cos, rotary_sin),
                joint_attention_kwargs={"state": state},
            )
        return hidden, context


class _SingleGroup(nn.Module):
    def __init__(self, group: Any, head_dim: int, num_text_tokens: int) -> None:
        super().__init__()
        self.blocks = keep_state_attention(group.blocks, SingleStateAttention())
        self.head_dim = head_dim
        self.num_text_tokens = num_text_tokens

    def forward(
        self,
        joint: Tensor,
        mod_single: Tensor,
        rotary_cos: Tensor,
        rotary_sin: Tensor,
        slots: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_length: Tensor | None = None,
    ) -> Tensor:
        bias = _bias(keys, slots, rotary_cos, valid_length)
        for index, block in enumerate(self.blocks):
            num_text = self.num_text_tokens
            merge = merge_with_template(slots, keys[index], values[index], num_text, self.head_dim)
            state = BlockState(num_text_tokens=num_text, merge=merge, bias=bias)
            joint = block(
                hidden_states=joint,
                encoder_hidden_states=None,
                temb_mod=mod_single,
                image_rotary_emb=(rotary_cos, rotary_sin),
                joint_attention_kwargs={"state": state},
            )
        return joint


def _bias(
    keys_bIM: Tensor, slots_E: Tensor, rotary_QD: Tensor, valid_length: Tensor | None
) -> Tensor | None:
    """Return what keeps padded keys out of the softmax: every image token has a key, edited or not."""
    if valid_length is None:
        return None
    num_keys = rotary_QD.shape[0] - slots_E.shape[0] + keys_bIM.shape[1]
    return key_bias(num_keys, valid_length, keys_bIM.dtype)
