"""Attention of FLUX.2's blocks with keys and values within reach.

Takes the place of diffusers' attention processors in blocks that this project builds for itself: same
projections, norms, rotary embedding and softmax. Before rotary embedding a *tap* sees keys and values;
after it a *merge* may return more of them than there are queries: those of template tokens that were
never computed here, whose keys are rotated already.

Shape letters: B batch (1), Q query tokens, K key tokens, I image tokens, N template rows, T text
tokens, M model dim, H heads, D head dim. Text tokens come first, in queries and in keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from diffusers.models.embeddings import apply_rotary_emb
from torch import Tensor
from torch.nn import functional

Rotary = tuple[Tensor, Tensor]
"""cos and sin, each (tokens, D) float32."""

Tap = Callable[[Tensor, Tensor], None]
"""Sees key, before rotary embedding, and value of the query tokens, (B, Q, H, D) each."""

Merge = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Rotated keys and values (B, Q, H, D) of the query tokens to those of all keys (B, K, H, D)."""

AttentionObserver = Callable[[Tensor, Tensor, Tensor], None]
"""Sees query (B, Q, H, D) and key (B, K, H, D), both rotated, and value (B, K, H, D)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockState:
    """What one block's attention is given besides its streams.

    `bias` is added to the scores, (1, 1, 1, K): -inf on keys that are padding.
    """

    num_text_tokens: int
    tap: Tap | None = None
    merge: Merge | None = None
    observe: AttentionObserver | None = None
    bias: Tensor | None = None


class DoubleStateAttention:
    """Joint attention of a double-stream block."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        attention_mask: None = None,
        image_rotary_emb: Any = None,
        *,
        state: BlockState,
    ) -> tuple[Tensor, Tensor]:
        """Return the image stream's and the text stream's attention output."""
        image = [
            _split_heads(project(hidden_states), attn)
            for project in (attn.to_q, attn.to_k, attn.to_v)
        ]
        text = [
            _split_heads(project(encoder_hidden_states), attn)
            for project in (attn.add_q_proj, attn.add_k_proj, attn.add_v_proj)
        ]
        query = torch.cat([attn.norm_added_q(text[0]), attn.norm_q(image[0])], dim=1)
        key = torch.cat([attn.norm_added_k(text[1]), attn.norm_k(image[1])], dim=1)
        value = torch.cat([text[2], image[2]], dim=1)
        output = _attend(query, key, value, image_rotary_emb, state)
        num_text = state.num_text_tokens
        return attn.to_out[0](output[:, num_text:]), attn.to_add_out(output[:, :num_text])


class SingleStateAttention:
    """Attention and feed-forward of a single-stream block, which share their projections."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        attention_mask: None = None,
        image_rotary_emb: Any = None,
        *,
        state: BlockState,
    ) -> Tensor:
        """Return the block's output before its gate, (B, Q, M)."""
        joint = attn.to_qkv_mlp_proj(hidden_states)
        width = attn.inner_dim
        query, key, value, feed = joint.split(
            [width, width, width, joint.shape[-1] - 3 * width], dim=-1
        )
        query, key, value = (_split_heads(part, attn) for part in (query, key, value))
        query, key = attn.norm_q(query), attn.norm_k(key)
        attended = _attend(query, key, value, image_rotary_emb, state)
        return cast("Tensor", attn.to_out(torch.cat([attended, attn.mlp_act_fn(feed)], dim=-1)))


def _split_heads(merged: Tensor, attn: Any) -> Tensor:
    return merged.reshape(*merged.shape[:-1], -1, attn.head_dim)


def _attend(
    query_BQHD: Tensor, key_BQHD: Tensor, value_BQHD: Tensor, rotary: Rotary, state: BlockState
) -> Tensor:
    """Return (B, Q, M), heads merged."""
    if state.tap is not None:
        state.tap(key_BQHD, value_BQHD)
    query, key_BKHD, value_BKHD = _rotate(query_BQHD, rotary), _rotate(key_BQHD, rotary), value_BQHD
    if state.merge is not None:
        key_BKHD, value_BKHD = state.merge(key_BKHD, value_BKHD)
    if state.observe is not None:
        state.observe(query, key_BKHD, value_BKHD)
    output = functional.scaled_dot_product_attention(
        query.transpose(1, 2),
        key_BKHD.transpose(1, 2),
        value_BKHD.transpose(1, 2),
        attn_mask=state.bias,
    )
    return output.transpose(1, 2).flatten(2, 3)


def _rotate(tokens_BLHD: Tensor, rotary: Any) -> Tensor:
    # Declared to take and return other kinds too, which it does for other layouts of the tables.
    return cast("Tensor", apply_rotary_emb(tokens_BLHD, rotary, sequence_dim=1))


def merge_with_template(
    slots_E: Tensor, key_IM: Tensor, value_IM: Tensor, num_text_tokens: int, head_dim: int
) -> Merge:
    """Return a merge that puts fresh rows into their slots among the template's.

    Args:
        slots_E: int64, the image token of each edited query. The last may be repeated: equal
            queries have equal keys, so writing one twice changes nothing.
        key_IM, value_IM: one row per image token, keys rotated; those of edited tokens are never
            read.

    Queries are text, edited and reference tokens; keys are text, image and reference tokens.
    """
    edited = slice(num_text_tokens, num_text_tokens + slots_E.shape[0])

    def fill(state_IM: Tensor, fresh: Tensor) -> Tensor:
        template = state_IM.reshape(1, state_IM.shape[0], -1, head_dim)
        keys = torch.cat([fresh[:, : edited.start], template, fresh[:, edited.stop :]], dim=1)
        return keys.index_copy(1, num_text_tokens + slots_E, fresh[:, edited])

    return lambda key, value: (fill(key_IM, key), fill(value_IM, value))


def keep_state_attention(blocks: Any, attention: Any) -> Any:
    """Give every one of `blocks` the `attention` of this module, and return them."""
    for block in blocks:
        block.attn.set_processor(attention)
    return blocks
