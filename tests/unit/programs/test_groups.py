"""How a stack of blocks is cut into calls: short enough to be cancelled, and of few kinds."""

import pytest

from intonaco.families.flux2_denoiser_specs import default_group_size
from intonaco.families.flux2_shapes import DenoiserShape, denoiser_shape
from intonaco.programs.groups import ASSUMED_FLOPS_PER_S, MAX_CALL_S, blocks_per_call, split_blocks

SHIPPED = {"num_attention_heads": 4, "attention_head_dim": 64, "mlp_ratio": 3.0}


@pytest.mark.parametrize("activations", ["float32", "bfloat16"])
@pytest.mark.parametrize("operations", [1e6, 1e8, 1e9, 2.4e9])
def test_a_call_ends_in_time_at_the_assumed_speed(operations, activations):
    size = blocks_per_call(operations, activations)
    assert size * operations <= MAX_CALL_S * ASSUMED_FLOPS_PER_S[activations]
    assert (size + 1) * operations > MAX_CALL_S * ASSUMED_FLOPS_PER_S[activations]


def test_a_call_holds_one_block_at_least():
    assert blocks_per_call(1e15, "float32") == 1


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "w8a16", "w8a8"])
def test_the_shipped_models_stacks_are_one_call_each(precision):
    shape = DenoiserShape(num_image_tokens=144, num_text_tokens=40)
    assert default_group_size(SHIPPED, shape, precision) >= 6


@pytest.mark.parametrize(("num_blocks", "group_size"), [(0, 3), (1, 1), (6, 4), (7, 3), (20, 20)])
def test_groups_hold_every_block_once_and_are_of_two_kinds_at_most(num_blocks, group_size):
    sizes = split_blocks(num_blocks, group_size)
    assert sum(sizes) == num_blocks
    assert max(sizes, default=0) <= group_size
    assert len(set(sizes)) <= 2


@pytest.mark.parametrize("num_reference_tokens", range(1, 300, 7))
def test_padding_after_references_is_less_than_a_quarter_of_the_picture(num_reference_tokens):
    shape = denoiser_shape(
        num_drawn_tokens=144, num_reference_tokens=num_reference_tokens, num_text_tokens=40
    )
    assert 0 <= shape.num_image_tokens - 144 - num_reference_tokens < 144 / 4
    assert shape.is_bounded


@pytest.mark.parametrize("num_reference_tokens", [36, 72, 144, 288])
def test_references_of_the_pictures_size_and_its_parts_are_not_padded(num_reference_tokens):
    shape = denoiser_shape(
        num_drawn_tokens=144, num_reference_tokens=num_reference_tokens, num_text_tokens=40
    )
    assert shape.num_image_tokens == 144 + num_reference_tokens


def test_a_picture_without_references_has_its_own_tokens_and_no_bound():
    shape = denoiser_shape(num_drawn_tokens=144, num_reference_tokens=0, num_text_tokens=40)
    assert shape == DenoiserShape(num_image_tokens=144, num_text_tokens=40)
