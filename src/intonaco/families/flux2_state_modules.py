"""FLUX.2's denoiser, eager, for template state: a dense run with taps, and a run of edited tokens only.

Works on blocks of its own that share the weights of the loaded denoiser, which stays as it is.

Shape letters: I image tokens, E edited tokens, R reference tokens, T text tokens, M model dim, H
heads, D head dim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel
from torch import Tensor

from intonaco.families.base import NamedTensors
from intonaco.families.flux2_state_attention import (
    BlockState,
    DoubleStateAttention,
    Rotary,
    SingleStateAttention,
    keep_state_attention,
    merge_with_template,
)
from intonaco.families.flux2_state_rotary import rotate_rows, row_turns
from intonaco.families.template_state import AttentionTap, KeyValueTap, StateSource

BlockStates = Callable[[int, Rotary], BlockState]
"""What a block's attention is given, by block index and rotary tables of all keys."""


def share_weights(transformer: Any) -> Any:
    """Return another transformer over the very weights of `transformer`, its attention ours."""
    with torch.device("meta"):
        twin: Any = Flux2Transformer2DModel.from_config(transformer.config)
    twin.load_state_dict(transformer.state_dict(), assign=True)
    keep_state_attention(twin.transformer_blocks, DoubleStateAttention())
    keep_state_attention(twin.single_transformer_blocks, SingleStateAttention())
    return twin.eval().requires_grad_(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TappedDenoiser:
    """A dense run that hands keys, values and, if asked, attention's operands to taps.

    Args:
        transformer: of `share_weights`.
        num_image_tokens: I; reference tokens behind them are not written to `tap`.
    """

    transformer: Any
    num_image_tokens: int
    tap: KeyValueTap | None = None
    attention_tap: AttentionTap | None = None

    @torch.no_grad()
    def __call__(self, inputs: NamedTensors, step: int, /) -> Tensor:
        """Return the prediction (1, I + R, C), as the plain denoiser would."""
        num_text = inputs["encoder_hidden_states"].shape[1]

        def states(block: int, _: Rotary) -> BlockState:
            def tap(key: Tensor, value: Tensor) -> None:
                if self.tap is not None:
                    image = slice(num_text, num_text + self.num_image_tokens)
                    self.tap.write(step, block, merge_rows(key, image), merge_rows(value, image))

            def observe(query: Tensor, key: Tensor, value: Tensor) -> None:
                if self.attention_tap is not None:
                    self.attention_tap.write(
                        step, block, query[0], key[0], value[0], num_text_tokens=num_text
                    )

            return BlockState(num_text_tokens=num_text, tap=tap, observe=observe)

        return run_blocks(self.transformer, inputs, states, tokens=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseDenoiser:
    """A run of the edited tokens only, which attend to the template's keys and values.

    Args:
        transformer: of `share_weights`.
        source: the template's state; N rows, I - E of them.
        slots_E: int64, the edited image tokens in raster order.
        rows_N: int64, the other image tokens in raster order.
    """

    transformer: Any
    source: StateSource
    slots_E: Tensor
    rows_N: Tensor

    def __call__(self, inputs: NamedTensors, step: int, /) -> Tensor:
        """Return the prediction (1, I + R, C); rows of template tokens are 0.

        Weights take no gradients. A source's tensors may ask for them: that is how it is measured
        what an error of theirs does to the finished edit.
        """
        hidden = inputs["hidden_states"]
        num_text = inputs["encoder_hidden_states"].shape[1]
        num_image = len(self.slots_E) + len(self.rows_N)
        references = torch.arange(num_image, hidden.shape[1], device=hidden.device)
        tokens = torch.cat([self.slots_E, references])

        def states(block: int, key_rotary: Rotary) -> BlockState:
            key, value = (rows.to(hidden.device) for rows in self.source.read(step, block))
            turned = rotate_rows(key, row_turns(*key_rotary, self.rows_N, num_text))
            key, value = self._in_slots(turned, hidden), self._in_slots(value, hidden)
            head_dim = self.transformer.config["attention_head_dim"]
            merge = merge_with_template(self.slots_E, key, value, num_text, head_dim)
            return BlockState(num_text_tokens=num_text, merge=merge)

        prediction = run_blocks(self.transformer, inputs, states, tokens=tokens)
        return torch.zeros_like(hidden).index_copy(1, tokens, prediction)

    def _in_slots(self, rows_NM: Tensor, like: Tensor) -> Tensor:
        """Return (I, M), rows of template tokens filled."""
        num_image = len(self.slots_E) + len(self.rows_N)
        slots = torch.zeros(num_image, rows_NM.shape[1], dtype=like.dtype, device=like.device)
        return slots.index_copy_(0, self.rows_N, rows_NM.to(like.device, like.dtype))


def merge_rows(tokens_1LHD: Tensor, rows: slice) -> Tensor:
    """Return `rows` of the only batch entry, (number of rows, M), heads merged."""
    return tokens_1LHD[0, rows].flatten(1)


def run_blocks(
    transformer: Any, inputs: NamedTensors, states: BlockStates, *, tokens: Tensor | None
) -> Tensor:
    """Return the prediction (1, Q, C) for the image (and reference) tokens in `tokens`, or all.

    `inputs` are the plain denoiser's, and hold every token: keys need all positions.
    """
    chosen = slice(None) if tokens is None else tokens
    hidden = transformer.x_embedder(inputs["hidden_states"][:, chosen])
    context = transformer.context_embedder(inputs["encoder_hidden_states"])
    temb = transformer.time_guidance_embed(inputs["timestep"].to(hidden.dtype) * 1000, None)
    text_rotary = transformer.pos_embed(inputs["txt_ids"][0])
    image_rotary = transformer.pos_embed(inputs["img_ids"][0])
    key_rotary: Any = tuple(map(torch.cat, zip(text_rotary, image_rotary, strict=True)))
    query_rotary: Any = tuple(
        torch.cat([text, image[chosen]])
        for text, image in zip(text_rotary, image_rotary, strict=True)
    )
    modulation = {
        "temb_mod_img": transformer.double_stream_modulation_img(temb),
        "temb_mod_txt": transformer.double_stream_modulation_txt(temb),
    }
    num_double, num_text = len(transformer.transformer_blocks), context.shape[1]
    for index, block in enumerate(transformer.transformer_blocks):
        context, hidden = block(
            hidden_states=hidden,
            encoder_hidden_states=context,
            image_rotary_emb=query_rotary,
            joint_attention_kwargs={"state": states(index, key_rotary)},
            **modulation,
        )
    joint = torch.cat([context, hidden], dim=1)
    single_modulation = transformer.single_stream_modulation(temb)
    for index, block in enumerate(transformer.single_transformer_blocks, start=num_double):
        joint = block(
            hidden_states=joint,
            encoder_hidden_states=None,
            temb_mod=single_modulation,
            image_rotary_emb=query_rotary,
            joint_attention_kwargs={"state": states(index, key_rotary)},
        )
    return transformer.proj_out(transformer.norm_out(joint[:, num_text:], temb))
