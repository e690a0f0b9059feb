"""Slots for keys and values: nothing that is still read is ever written."""

import mmap

import numpy as np
import pytest

from intonaco.device.slots import SlotLayout, Slots
from intonaco.template.manifest import StateSizes

SIZES = StateSizes(num_steps=3, num_rows=5, width=4, block_groups=((0, 1), (2, 3, 4), (5,)))
LAYOUT = SlotLayout(sizes=SIZES)


def test_what_is_written_to_one_slot_is_in_no_other():
    with mmap.mmap(-1, LAYOUT.num_bytes) as memory:
        for slot in range(LAYOUT.num_slots):
            LAYOUT.shard(memory, slot, 1)[:] = slot
        seen = [np.unique(LAYOUT.shard(memory, slot, 1)) for slot in range(LAYOUT.num_slots)]
        sizes = {group: LAYOUT.shard(memory, 0, group).shape for group in range(3)}
    assert [values.tolist() for values in seen] == [[0], [1], [2], [3]]
    assert sizes == {0: (2, 2, 5, 4), 1: (3, 2, 5, 4), 2: (1, 2, 5, 4)}


@pytest.mark.parametrize("num_groups", [1, 2, 5])
def test_the_free_slot_is_never_one_that_a_group_ran_last(num_groups):
    sizes = StateSizes(
        num_steps=4, num_rows=2, width=2, block_groups=tuple((b,) for b in range(num_groups))
    )
    slots, held = Slots(SlotLayout(sizes=sizes)), {}
    for shard in range(4 * num_groups):
        assert slots.free not in held.values()
        # A shard in three borrows: nothing is written and nothing given back.
        if shard % 3 != 2:
            held[shard % num_groups] = slots.keep(shard % num_groups)


def test_slots_begin_where_cache_lines_do():
    assert LAYOUT.slot_bytes % 64 == 0
