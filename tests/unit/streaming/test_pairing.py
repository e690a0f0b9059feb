"""How two progressive files become one choice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import StreamSettingsError
from intonaco.streaming.pairing import Rung, pair_ladders
from intonaco.streaming.tables import ShardLevels


def test_two_ladders_are_cut_where_a_byte_buys_the_same_in_both():
    own = [
        Rung(num_bytes=10, error=100.0),
        Rung(num_bytes=20, error=50.0),
        Rung(num_bytes=30, error=45.0),
    ]
    shared = [Rung(num_bytes=5, error=80.0), Rung(num_bytes=15, error=40.0)]
    levels = pair_ladders(own, shared, basis_share=0.5)
    assert [(x.coefficient_bytes, x.basis_bytes, x.error) for x in levels] == [
        (10, 5, 140.0),
        (20, 5, 90.0),  # 5 per byte
        (20, 15, 70.0),  # 4 per byte over all steps
        (30, 15, 65.0),  # 0.5 per byte
    ]


rungs = st.lists(st.tuples(st.integers(1, 500), st.floats(0, 100)), min_size=1, max_size=12).map(
    lambda steps: [
        Rung(
            num_bytes=sum(size for size, _ in steps[: index + 1]),
            error=sum(error for _, error in steps[index + 1 :]),
        )
        for index in range(len(steps))
    ]
)


@given(own=rungs, shared=rungs)
def test_paired_ladders_always_make_valid_levels_that_end_with_both_files_whole(own, shared):
    levels = pair_ladders(own, shared, basis_share=0.25)
    rows = ShardLevels(step=0, group=0, levels=levels)
    assert rows.full.coefficient_bytes == own[-1].num_bytes
    assert rows.full.basis_bytes == shared[-1].num_bytes


def test_a_ladder_without_a_floor_is_refused():
    with pytest.raises(StreamSettingsError, match="needs a floor in both files"):
        pair_ladders([], [Rung(num_bytes=1, error=1.0)], basis_share=1.0)
