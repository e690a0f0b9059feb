"""FLUX.2's block groups for runs with references: one program for every size within a bucket.

Reference tokens come last in the joint sequence, so padding after them is a suffix, and the number of
valid keys is a runtime value: padded keys get a score of -inf and never enter a softmax. Padded rows
are computed as queries and dropped; nothing reads them. `flux2_shapes` chooses the buckets.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from intonaco.attention.joint import key_bias
from intonaco.families import flux2_builders


def build_double_group(*, precision: str, num_blocks: int, **config: Any) -> nn.Module:
    """A run of double-stream blocks over a sequence whose end is padding."""
    group = flux2_builders.build_double_group(precision=precision, num_blocks=num_blocks, **config)
    return _DoubleGroup(group)


def build_single_group(*, precision: str, num_blocks: int, **config: Any) -> nn.Module:
    """A run of single-stream blocks over a sequence whose end is padding."""
    group = flux2_builders.build_single_group(precision=precision, num_blocks=num_blocks, **config)
    return _SingleGroup(group)


class _DoubleGroup(nn.Module):
    def __init__(self, group: Any) -> None:
        super().__init__()
        self.blocks = group.blocks

    def forward(
        self,
        hidden: Tensor,
        context: Tensor,
        mod_image: Tensor,
        mod_text: Tensor,
        rotary_cos: Tensor,
        rotary_sin: Tensor,
        valid_length: Tensor,
    ) -> tuple[Tensor, Tensor]:
        bias = key_bias(context.shape[1] + hidden.shape[1], valid_length, hidden.dtype)
        for block in self.blocks:
            context, hidden = block(
                hidden_states=hidden,
                encoder_hidden_states=context,
                temb_mod_img=mod_image,
                temb_mod_txt=mod_text,
                image_rotary_emb=(rotary_cos, rotary_sin),
                joint_attention_kwargs={"attention_mask": bias},
            )
        return hidden, context


class _SingleGroup(nn.Module):
    def __init__(self, group: Any) -> None:
        super().__init__()
        self.blocks = group.blocks

    def forward(
        self,
        joint: Tensor,
        mod_single: Tensor,
        rotary_cos: Tensor,
        rotary_sin: Tensor,
        valid_length: Tensor,
    ) -> Tensor:
        bias = key_bias(joint.shape[1], valid_length, joint.dtype)
        for block in self.blocks:
            joint = block(
                hidden_states=joint,
                encoder_hidden_states=None,
                temb_mod=mod_single,
                image_rotary_emb=(rotary_cos, rotary_sin),
                joint_attention_kwargs={"attention_mask": bias},
            )
        return joint
