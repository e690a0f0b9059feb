"""Padded keys never enter a softmax, whatever they hold."""

import pytest
import torch
from torch.nn import functional

from intonaco.attention.joint import bounded_attention, key_bias
from tests.support.comparison import assert_close

NUM_QUERIES, NUM_KEYS, HEADS, HEAD_DIM = 9, 24, 2, 16
FORMS = ("slice", "mask")
LENGTHS = (1, 5, 23, 24)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def inputs():
    q = draw(1, HEADS, NUM_QUERIES, HEAD_DIM, seed=1)
    k = draw(1, HEADS, NUM_KEYS, HEAD_DIM, seed=2)
    return q, k, draw(1, HEADS, NUM_KEYS, HEAD_DIM, seed=3)


@pytest.mark.usefixtures("each_number_of_threads")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", LENGTHS)
def test_bounded_equals_attention_over_the_valid_keys_alone(form, length):
    q, k, v = inputs()
    expected = functional.scaled_dot_product_attention(q, k[:, :, :length], v[:, :, :length])
    actual = bounded_attention(q, k, v, torch.tensor(length), form=form)
    assert_close(actual, expected, atol=1e-6, why="sums of 24 terms near 1 in another order")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", LENGTHS)
def test_padding_of_1e4_and_of_noise_gives_the_same_bits(form, dtype, length):
    q, k, v = (tensor.to(dtype) for tensor in inputs())
    outputs = []
    for filler in (torch.full_like(k, 1e4), draw(*k.shape, seed=9).to(dtype)):
        k_filled, v_filled = k.clone(), v.clone()
        k_filled[:, :, length:] = filler[:, :, length:]
        v_filled[:, :, length:] = filler[:, :, length:]
        bound = torch.tensor(length)
        outputs.append(bounded_attention(q, k_filled, v_filled, bound, form=form))
    assert torch.equal(*outputs)


def test_the_bias_is_zero_on_valid_keys_and_minus_infinity_on_padding():
    bias = key_bias(4, torch.tensor(2), torch.float32)
    assert bias.tolist() == [[[[0.0, 0.0, float("-inf"), float("-inf")]]]]


@pytest.mark.parametrize("length", [0, NUM_KEYS + 1])
def test_a_length_out_of_range_is_refused(length):
    with pytest.raises(RuntimeError):
        bounded_attention(*inputs(), torch.tensor(length))
