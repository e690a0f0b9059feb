"""Template keys are turned on the host as the blocks turn fresh ones."""

import torch
from diffusers.models.embeddings import apply_rotary_emb, get_1d_rotary_pos_embed

from intonaco.families.flux2_state_rotary import rotate_rows, row_turns
from tests.support.comparison import assert_close

NUM_TEXT, HEADS, HEAD_DIM = 3, 2, 8
ROWS = torch.tensor([0, 2, 5])


def tables():
    return get_1d_rotary_pos_embed(
        HEAD_DIM, torch.arange(NUM_TEXT + 7.0), repeat_interleave_real=True, use_real=True
    )


def test_keys_are_turned_as_the_blocks_would():
    generator = torch.Generator().manual_seed(0)
    key = torch.randn(3, HEADS * HEAD_DIM, generator=generator)
    cos, sin = tables()
    chosen = NUM_TEXT + ROWS
    expected = apply_rotary_emb(
        key.reshape(1, 3, HEADS, HEAD_DIM), (cos[chosen], sin[chosen]), sequence_dim=1
    )

    actual = rotate_rows(key, row_turns(cos, sin, ROWS, NUM_TEXT))
    assert_close(
        actual, expected[0].flatten(1), atol=5e-7, why="one product may be fused with the sum"
    )


def test_a_template_without_rows_has_no_keys():
    turns = row_turns(*tables(), torch.tensor([], dtype=torch.int64), NUM_TEXT)

    assert rotate_rows(torch.zeros(0, HEADS * HEAD_DIM), turns).shape == (0, HEADS * HEAD_DIM)
