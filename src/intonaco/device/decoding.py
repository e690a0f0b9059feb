"""Decodes what has arrived of a template, a slice at a time, so that decoding can stop at any moment.

Which files first: the floors of the shard whose turn comes, then its two files in equal shares, then
those of the shards after it.
"""

import mmap
import time
from collections.abc import Callable

from intonaco.streaming.shared_files import Layout, Lengths
from intonaco.template.manifest import LadderRecord, TemplateManifest
from intonaco.template.pack_reader import PackReader, Place, places

# Short against a shard's run time, long against the cost of a call.
SLICE_S = 0.002
SMALLEST_SLICE_BYTES = 1024
FIRST_BYTES_PER_S = 2e6
SMOOTHING = 0.2


class Decoding:
    """What has been decoded of a template's files, out of what has arrived.

    Attributes:
        num_bytes, seconds: decoded so far, and how long that took.
    """

    def __init__(
        self,
        manifest: TemplateManifest,
        reader: PackReader,
        memory: mmap.mmap,
        layout: Layout,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.num_bytes = 0
        self.seconds = 0.0
        self._reader = reader
        self._memory = memory
        self._layout = layout
        self._lengths = Lengths(memory, layout)
        self._clock = clock
        self._num_groups = len(manifest.bases)
        self._num_shards = manifest.sizes.num_steps * self._num_groups
        self._records = {place: record for record, place in places(manifest)}
        self._order = list(self._records)
        self._bytes_per_s = FIRST_BYTES_PER_S
        self._exhausted: tuple[int, list[int]] | None = None

    def num_decoded(self, place: Place) -> int:
        return self._reader.num_verified_bytes(*place)

    def floors(self, shard: int, *, coefficient_bytes: int, basis_bytes: int) -> None:
        """Decode a shard's floor: prefixes of its files that have arrived. Raises PackError."""
        for place, num_bytes in self._prefixes(shard, coefficient_bytes, basis_bytes):
            self._up_to(place, num_bytes)

    def more_of(self, shard: int, *, coefficient_bytes: int, basis_bytes: int) -> bool:
        """Decode a slice of the file that lags more; return False if nothing is left of either."""
        return self._slice(self._prefixes(shard, coefficient_bytes, basis_bytes))

    def ahead(self, shard: int) -> bool:
        """Decode a slice of what has arrived for `shard` or, without any, for a later one."""
        lengths = self._lengths.read()
        # Asked hundreds of times a second: most of the time nothing has arrived since the last look.
        if (shard, lengths) == self._exhausted:
            return False
        arrived = dict(zip(self._order, lengths, strict=True))
        for later in range(shard, self._num_shards):
            coefficients, basis = self._places(later)
            if self._slice([(coefficients, arrived[coefficients]), (basis, arrived[basis])]):
                return True
        self._exhausted = (shard, lengths)
        return False

    def _prefixes(
        self, shard: int, coefficient_bytes: int, basis_bytes: int
    ) -> list[tuple[Place, int]]:
        coefficients, basis = self._places(shard)
        return [(coefficients, coefficient_bytes), (basis, basis_bytes)]

    def _places(self, shard: int) -> tuple[Place, Place]:
        step, group = divmod(shard, self._num_groups)
        return (step, group), (None, group)

    def _slice(self, prefixes: list[tuple[Place, int]]) -> bool:
        left = [
            (self.num_decoded(place) / num_bytes, index)
            for index, (place, num_bytes) in enumerate(prefixes)
            if self.num_decoded(place) < num_bytes
        ]
        for _, index in sorted(left):
            place, num_bytes = prefixes[index]
            wanted = self._next_cut(self._records[place], self.num_decoded(place), num_bytes)
            if wanted:
                self._up_to(place, wanted)
                return True
        return False

    def _next_cut(self, record: LadderRecord, have: int, num_bytes: int) -> int:
        """Return where the next slice ends, at least a chunk; 0 where no whole chunk has arrived."""
        size = max(SMALLEST_SLICE_BYTES, int(SLICE_S * self._bytes_per_s))
        cut = record.longest_cut(min(num_bytes, have + size))
        if cut > have:
            return cut
        return next((end for end in record.ends if have < end <= num_bytes), 0)

    def _up_to(self, place: Place, num_bytes: int) -> None:
        have = self.num_decoded(place)
        if num_bytes <= have:
            return
        offset = self._layout.offsets[self._records[place].name]
        began_at = self._clock()
        self._reader.feed(*place, self._memory[offset + have : offset + num_bytes])
        seconds = self._clock() - began_at
        self.num_bytes += num_bytes - have
        self.seconds += seconds
        if seconds > 0:
            measured = (num_bytes - have) / seconds
            self._bytes_per_s += SMOOTHING * (measured - self._bytes_per_s)
