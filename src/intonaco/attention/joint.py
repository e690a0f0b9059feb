"""Attention over a key sequence whose valid length is a runtime value.

One program serves every text length: shapes are those of the padded sequence, and the number of
valid keys arrives as a tensor. Keys are in the order visual, valid text, padding, so the valid ones
are a prefix. Padding never enters a softmax, whatever it holds.

Shape letters: B batch, H heads, Q queries, K keys (padding included), D head dim.
"""

from __future__ import annotations

from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import functional

Form = Literal["slice", "mask"]


def bounded_attention(
    q_BHQD: Tensor,
    k_BHKD: Tensor,
    v_BHKD: Tensor,
    valid_length: Tensor,
    *,
    form: Form = "slice",
) -> Tensor:
    """Return attention (B, H, Q, D) of every query over the first `valid_length` keys.

    Args:
        valid_length: int64 scalar tensor, 1..K. A Python number would be frozen into a program.
        form: "slice" never reads padded keys and costs less the fewer keys are valid; "mask" does
            the same by -inf scores, for backends without data-dependent shapes.

    Rows of padded queries hold numbers without meaning, and must not be read.
    """
    if form == "slice":
        num_keys = cast("int", valid_length.item())  # int() would freeze it into a program
        # What an exported graph may assume of the number, and an eager call refuses.
        torch._check(num_keys >= 1)  # pyright: ignore[reportPrivateUsage]
        torch._check(num_keys <= k_BHKD.shape[2])  # pyright: ignore[reportPrivateUsage]
        k_BHKD, v_BHKD = k_BHKD[:, :, :num_keys], v_BHKD[:, :, :num_keys]
        return functional.scaled_dot_product_attention(q_BHQD, k_BHKD, v_BHKD)
    bias_111K = key_bias(k_BHKD.shape[2], valid_length, q_BHQD.dtype)
    return functional.scaled_dot_product_attention(q_BHQD, k_BHKD, v_BHKD, attn_mask=bias_111K)


def key_bias(num_keys: int, valid_length: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the scores' addend (1, 1, 1, K): 0 on valid keys, -inf on padding.

    >>> key_bias(5, torch.tensor(3), torch.float32)[0, 0, 0].tolist()
    [0.0, 0.0, 0.0, -inf, -inf]
    """
    is_valid_K = torch.arange(num_keys, device=valid_length.device) < valid_length
    zero = torch.zeros((), dtype=dtype, device=valid_length.device)
    return torch.where(is_valid_K, zero, float("-inf")).to(dtype)[None, None, None]
