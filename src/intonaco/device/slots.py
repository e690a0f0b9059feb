"""Where reconstruction leaves keys and values for the model: shared memory, one slot per block group.

A slot holds one shard: (block, kind, N, d) float32. There is one slot more than block groups: each
group keeps the shard that it ran last, for a later step to borrow, while the next one is written.
"""

import mmap
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.template.coded import KINDS
from intonaco.template.manifest import StateSizes

FLOAT32_BYTES = 4
# A slot begins where a cache line begins.
ALIGNMENT_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLayout:
    """Sizes of the slots of a template."""

    sizes: StateSizes

    @property
    def num_slots(self) -> int:
        return len(self.sizes.block_groups) + 1

    @property
    def slot_bytes(self) -> int:
        num_blocks = max(len(blocks) for blocks in self.sizes.block_groups)
        num_values = num_blocks * len(KINDS) * self.sizes.num_rows * self.sizes.width
        return -(-num_values * FLOAT32_BYTES // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    @property
    def num_bytes(self) -> int:
        return self.num_slots * self.slot_bytes

    def shard(self, memory: mmap.mmap, slot: int, group: int) -> NDArray[np.float32]:
        """Return a view of the slot as the shard of `group`: (block, kind, N, d)."""
        num_blocks = len(self.sizes.block_groups[group])
        shape = (num_blocks, len(KINDS), self.sizes.num_rows, self.sizes.width)
        return np.frombuffer(
            memory, np.float32, count=int(np.prod(shape)), offset=slot * self.slot_bytes
        ).reshape(shape)


class Slots:
    """Which slot each block group's last shard lies in, and which one is free."""

    def __init__(self, layout: SlotLayout) -> None:
        self._free = layout.num_slots - 1
        self._of_group = list(range(layout.num_slots - 1))

    @property
    def free(self) -> int:
        """The slot that may be written: nothing reads it."""
        return self._free

    def keep(self, group: int) -> int:
        """The free slot holds the group's newest shard, and the one before it is not read any more."""
        newest = self._free
        self._of_group[group], self._free = newest, self._of_group[group]
        return newest
