"""8-bit linear layers, as two plain buffers each.

- W8A16: 8-bit weights, 16-bit activations. Saves memory and disk; not time.
- W8A8: 8-bit weights, and activations rounded to 8 bits row by row as they come. Saves time too where
  the processor multiplies bytes (VNNI), at some loss of accuracy. Activations between layers stay
  float32.

A row of the weight (one output) shares one scale. Knows nothing of programs; builders apply it to
their module, presharding to the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

MIN_FEATURES = 64
MAX_INT8 = 127


class Int8Linear(nn.Module):
    """`weight_int8` int8 (out, in) times `weight_scale` (out,), in place of a float weight."""

    weight_int8: Tensor
    weight_scale: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        device, dtype = linear.weight.device, linear.weight.dtype
        shape = linear.weight.shape
        self.register_buffer("weight_int8", torch.empty(shape, dtype=torch.int8, device=device))
        self.register_buffer("weight_scale", torch.empty(shape[0], dtype=dtype, device=device))
        self.bias: nn.Parameter | None = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """Return x (..., in) times the dequantized weight, plus the bias: (..., out)."""
        product = functional.linear(x, self.weight_int8.to(x.dtype)) * self.weight_scale
        return product if self.bias is None else product + self.bias


class DynamicInt8Linear(Int8Linear):
    """As `Int8Linear`, but multiplies bytes: each row of the input is rounded to its own scale."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x (..., in) times the weight, plus the bias: (..., out), in the dtype of x."""
        rows = x.reshape(-1, x.shape[-1])
        levels, scale = round_rows(rows)
        # 127 * 127 * in fits 32 bits for rows of up to 133,000 features.
        sums = torch._int_mm(levels, self.weight_int8.t())  # pyright: ignore
        product = sums.to(x.dtype) * scale * self.weight_scale
        product = product.reshape(*x.shape[:-1], -1)
        return product if self.bias is None else product + self.bias


def round_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 levels (N, in) and scales (N, 1) of each row; its largest value becomes 127."""
    largest = rows.abs().amax(dim=-1, keepdim=True)
    scale = (largest / MAX_INT8).clamp_min(torch.finfo(torch.float32).tiny)
    levels = (rows / scale).round().clamp(-MAX_INT8, MAX_INT8).to(torch.int8)
    return levels, scale


LAYERS: dict[str, type[Int8Linear]] = {"w8a16": Int8Linear, "w8a8": DynamicInt8Linear}


def is_quantized(shape: tuple[int, ...]) -> bool:
    """Say whether a linear weight of this shape is worth 8 bits: small ones would save nothing."""
    return len(shape) == 2 and min(shape) >= MIN_FEATURES


def quantize_linears(module: nn.Module, precision: str) -> nn.Module:
    """Put the 8-bit layer of `precision` in place of every linear layer that is large enough.

    Returns `module`, unchanged where the precision has no 8-bit layer.
    """
    if precision not in LAYERS:
        return module
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear) and is_quantized(tuple(child.weight.shape)):
            setattr(module, name, LAYERS[precision](child))
        else:
            quantize_linears(child, precision)
    return module


def quantize_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 (out, in) and scale (out,) in the weight's dtype; the largest of a row becomes 127."""
    rows = weight.float()
    scale = (rows.abs().amax(dim=1) / MAX_INT8).clamp_min(torch.finfo(torch.float32).tiny)
    # Rounded with the scale that will be used, which has the weight's own, coarser dtype.
    scale = scale.to(weight.dtype)
    levels = (rows / scale.float()[:, None]).round().clamp(-MAX_INT8, MAX_INT8)
    return levels.to(torch.int8), scale


def quantize_tensors(
    tensors: Mapping[str, Tensor], linear_names: frozenset[str]
) -> dict[str, Tensor]:
    """Return `tensors` with each weight of `linear_names` replaced by its two buffers."""
    quantized: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name in linear_names and is_quantized(tuple(tensor.shape)):
            stem = name.removesuffix(".weight")
            quantized[f"{stem}.weight_int8"], quantized[f"{stem}.weight_scale"] = quantize_weight(
                tensor
            )
        else:
            quantized[name] = tensor
    return quantized
