"""Rotary embedding of a template's keys, on the host, in one pass over them. Imports no model class.

Shape letters: K all keys, N template rows, M model dim, H heads, D head dim.
"""

import torch
from torch import Tensor


def row_turns(cos_KD: Tensor, sin_KD: Tensor, rows_N: Tensor, num_text_tokens: int) -> Tensor:
    """Return the turn of each pair of channels of the template's rows, (N, 1, D / 2) complex64.

    Tables hold every angle twice, side by side, float32; image tokens follow the text.
    """
    keys = num_text_tokens + rows_N
    cos, sin = (table_KD[keys, ::2] for table_KD in (cos_KD, sin_KD))
    return torch.complex(cos, sin).unsqueeze(1)


def rotate_rows(key_NM: Tensor, turns: Tensor) -> Tensor:
    """Return keys turned by `turns`, (N, M) float32.

    Channels 2i and 2i + 1 of a head are one complex number; turning it is one product, which costs
    a fraction of what the same in real numbers costs compiled.
    """
    num_rows, model_dim = key_NM.shape
    num_pairs = turns.shape[-1]
    num_heads = model_dim // (2 * num_pairs)
    pairs = key_NM.float().reshape(num_rows, num_heads, num_pairs, 2)
    turned = torch.view_as_real(torch.view_as_complex(pairs) * turns)
    return turned.reshape(num_rows, model_dim)
