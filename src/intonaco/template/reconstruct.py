"""A template's files as what an edit reads: tensors, made from what has arrived.

`pack_reader.py` decodes; here numbers become tensors of a dtype, in buffers of the edit's own.

Shape letters: I image tokens, N template rows, d width.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from intonaco.families.template_state import KINDS, StateShape
from intonaco.template.fast_planes import plane_decoder_for
from intonaco.template.manifest import TemplateManifest
from intonaco.template.pack_reader import PackReader, places

FLOAT16_BYTES = 2


class PackSource:
    """A template's state, read from whatever prefixes of its files have been fed.

    A StateSource: an edit may read while more is fed between its reads. Not for several threads at
    once. Keeps the decoded factors of every unit, and never a whole step of keys and values.
    """

    def __init__(self, manifest: TemplateManifest, *, dtype: torch.dtype = torch.float32) -> None:
        """`dtype` is what `read` returns: that of the program that takes it.

        Raises ManifestError for a codec that is not known here.
        """
        decode = plane_decoder_for(sum(record.num_bytes for record, _ in places(manifest)))
        self._reader = PackReader(manifest, decode=decode)
        sizes = manifest.sizes
        self._shape = StateShape(
            num_steps=sizes.num_steps,
            num_blocks=sizes.num_blocks,
            num_rows=sizes.num_rows,
            width=sizes.width,
        )
        self._dtype = dtype

    @property
    def shape(self) -> StateShape:
        return self._shape

    def feed(self, step: int | None, group: int, piece: bytes | memoryview) -> None:
        """Take the next bytes of a basis file (`step` None) or coefficient file.

        Raises PackError, which names the file; what came before stays usable.
        """
        self._reader.feed(step, group, piece)

    def num_verified_bytes(self, step: int | None, group: int) -> int:
        """Return how many leading bytes of a file are in use; fetching goes on from there."""
        return self._reader.num_verified_bytes(step, group)

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        """Return keys and values, each (N, d). Raises TemplateMissingError for no such unit."""
        size = (self._shape.num_rows, self._shape.width)
        key, value = torch.empty(size, dtype=self._dtype), torch.empty(size, dtype=self._dtype)
        self.read_into(step, block, key, value)
        return key, value

    def read_into(
        self, step: int, block: int, key: Tensor, value: Tensor, *, rows_N: Tensor | None = None
    ) -> None:
        """Write keys and values of one unit into buffers that are there already.

        Args:
            key, value: (N, d), or with `rows_N` (I, d); rows that are not named keep their values.
            rows_N: int64, the slot of each template row.

        One product per unit, in float32, and one rounding to the buffers' dtype.
        """
        for kind, target in enumerate((key, value)):
            is_plain = rows_N is None and target.dtype == torch.float32 and target.is_contiguous()
            made_Nd = target if is_plain else torch.empty(self._shape.num_rows, self._shape.width)
            self._reader.write(step, block, kind, made_Nd.numpy())
            if rows_N is not None:
                target.index_copy_(0, rows_N, made_Nd.to(target.dtype))
            elif not is_plain:
                target.copy_(made_Nd)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconstructSpeed:
    """How fast keys and values are made.

    Attributes:
        gigabytes_per_s: of state as float16, whatever dtype is written.
        unit_us: median time of one unit, keys and values.
    """

    gigabytes_per_s: float
    unit_us: float


def measure_reconstruct(source: PackSource, *, num_repeats: int = 20) -> ReconstructSpeed:
    """Time `read_into` over all units, decoded already, into one pair of buffers; take the median."""
    shape = source.shape
    key, value = (torch.empty(shape.num_rows, shape.width) for _ in KINDS)
    units = [(step, block) for step in range(shape.num_steps) for block in range(shape.num_blocks)]
    rounds: list[float] = []
    for _ in range(num_repeats + 1):
        start = time.perf_counter()
        for step, block in units:
            source.read_into(step, block, key, value)
        rounds.append((time.perf_counter() - start) / len(units))
    # The first round decodes what was fed.
    median_s = sorted(rounds[1:])[num_repeats // 2]
    unit_bytes = len(KINDS) * shape.num_rows * shape.width * FLOAT16_BYTES
    return ReconstructSpeed(gigabytes_per_s=unit_bytes / median_s / 1e9, unit_us=median_s * 1e6)
