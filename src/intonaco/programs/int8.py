"""W8A16: linear layers with 8-bit weights and 16-bit activations, as two plain buffers.

A row of the weight (one output) shares one scale. This saves memory and disk; whether it saves time
depends on the processor. Knows nothing of programs; builders apply it to their module, presharding
to the checkpoint.
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


def is_quantized(shape: tuple[int, ...]) -> bool:
    """Say whether a linear weight of this shape is worth 8 bits: small ones would save nothing."""
    return len(shape) == 2 and min(shape) >= MIN_FEATURES


def quantize_linears(module: nn.Module) -> nn.Module:
    """Put `Int8Linear` in place of every linear layer that is large enough, and return `module`."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear) and is_quantized(tuple(child.weight.shape)):
            setattr(module, name, Int8Linear(child))
        else:
            quantize_linears(child)
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
