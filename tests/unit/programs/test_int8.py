"""8-bit weights: the error of a row is at most half a level."""

import torch
from torch import nn

from intonaco.programs.int8 import (
    DynamicInt8Linear,
    Int8Linear,
    quantize_linears,
    quantize_tensors,
    quantize_weight,
    round_rows,
)


def test_no_weight_is_off_by_more_than_half_a_level():
    weight = torch.randn(64, 96, generator=torch.Generator().manual_seed(0))
    levels, scale = quantize_weight(weight)
    # One part in a million covers the float32 division by the scale.
    assert ((levels * scale[:, None] - weight).abs() <= scale[:, None] * (0.5 + 1e-6)).all()


def test_a_row_of_zeros_stays_zero():
    levels, scale = quantize_weight(torch.zeros(64, 64))
    assert torch.equal(levels * scale[:, None], torch.zeros(64, 64))


def test_large_linear_layers_are_replaced_and_small_ones_kept():
    module = quantize_linears(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8)), "w8a16")
    assert [type(child) for child in module] == [Int8Linear, nn.Linear]


def test_tensors_are_renamed_as_the_module_expects():
    module = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8))
    linear_names = frozenset({"0.weight", "1.weight"})
    tensors = quantize_tensors(module.state_dict(), linear_names)
    assert tensors.keys() == quantize_linears(module, "w8a8").state_dict().keys()


def test_a_precision_without_8_bit_layers_changes_nothing():
    module = quantize_linears(nn.Sequential(nn.Linear(64, 64)), "bfloat16")
    assert type(module[0]) is nn.Linear


def test_products_of_bytes_are_exact():
    linear = nn.Linear(64, 64, bias=False)
    layer = DynamicInt8Linear(linear)
    levels, scale = quantize_weight(linear.weight.detach())
    layer.weight_int8, layer.weight_scale = levels, scale
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    rows, row_scale = round_rows(x)
    sums = rows.long() @ levels.long().T
    assert torch.equal(layer(x), sums.float() * row_scale * scale)


def test_a_row_of_zeros_gives_zeros():
    rows, scale = round_rows(torch.zeros(2, 64))
    assert torch.equal(rows * scale, torch.zeros(2, 64))
