"""From what has arrived of a template to keys and values, unit by unit, at any time.

Takes prefixes of basis and coefficient files, in pieces of any size and any order of files, and hands
out each unit as good as what is there allows: what has not arrived counts as zero. Knows nothing of
disks, links or clocks.

Shape letters: I image tokens, N template rows, d width, R components.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from intonaco.errors import ManifestError, PackError, TemplateMissingError
from intonaco.families.template_state import KINDS, StateShape
from intonaco.template.decoder import CODEC, StateDecoder
from intonaco.template.fast_planes import plane_decoder_for
from intonaco.template.ladder_file import LadderReader
from intonaco.template.manifest import LadderRecord, TemplateManifest
from intonaco.template.pack_writer import ladder_header

Place = tuple[int | None, int]
"""Step (None for a basis file) and block group."""

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
        if manifest.codec != CODEC:
            raise ManifestError(
                f"codec must be {CODEC!r}, got {manifest.codec!r}; build the template again, or read "
                "it with the version that wrote it"
            )
        sizes = manifest.sizes
        self._shape = StateShape(
            num_steps=sizes.num_steps,
            num_blocks=sizes.num_blocks,
            num_rows=sizes.num_rows,
            width=sizes.width,
        )
        self._dtype = dtype
        self._readers = {
            place: open_ladder(manifest, record, place) for record, place in places(manifest)
        }
        self._decoder = StateDecoder(
            num_steps=sizes.num_steps,
            num_blocks=sizes.num_blocks,
            num_rows=sizes.num_rows,
            width=sizes.width,
            decode=plane_decoder_for(sum(record.num_bytes for record, _ in places(manifest))),
        )

    @property
    def shape(self) -> StateShape:
        return self._shape

    def feed(self, step: int | None, group: int, piece: bytes | memoryview) -> None:
        """Take the next bytes of a basis file (`step` None) or coefficient file.

        Raises PackError, which names the file; what came before stays usable.
        """
        for increment in self._readers[step, group].feed(piece):
            try:
                self._decoder.add(increment)
            except PackError as error:
                name = "basis" if step is None else f"coefficients of step {step}"
                raise type(error)(
                    f"{name}, block group {group}: {error}; build the template again"
                ) from None

    def num_verified_bytes(self, step: int | None, group: int) -> int:
        """Return how many leading bytes of a file are in use; fetching goes on from there."""
        return self._readers[step, group].num_verified_bytes

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
        self._check_unit(step, block)
        for kind, target in enumerate((key, value)):
            factors = self._decoder.factors(block, kind)
            coefficients_NR = torch.from_numpy(factors.coefficients_at(step))
            mean_d, basis_Rd = torch.from_numpy(factors.mean_d), torch.from_numpy(factors.basis_Rd)
            if rows_N is None and target.dtype == torch.float32:
                torch.addmm(mean_d, coefficients_NR, basis_Rd, out=target)
                continue
            made_Nd = torch.addmm(mean_d, coefficients_NR, basis_Rd).to(target.dtype)
            if rows_N is None:
                target.copy_(made_Nd)
            else:
                target.index_copy_(0, rows_N, made_Nd)

    def _check_unit(self, step: int, block: int) -> None:
        shape = self._shape
        if not (0 <= step < shape.num_steps and 0 <= block < shape.num_blocks):
            raise TemplateMissingError(
                f"template state has no unit (step {step}, block {block}), it has steps 0.."
                f"{shape.num_steps - 1} and blocks 0..{shape.num_blocks - 1}; build it for this "
                "model and number of steps"
            )


def places(manifest: TemplateManifest) -> list[tuple[LadderRecord, Place]]:
    """Return every ladder file with its place: the bases, then coefficients step by step."""
    found: list[tuple[LadderRecord, Place]] = [
        (record, (None, group)) for group, record in enumerate(manifest.bases)
    ]
    for step, row in enumerate(manifest.coefficients):
        found += [(record, (step, group)) for group, record in enumerate(row)]
    return found


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


def open_ladder(manifest: TemplateManifest, record: LadderRecord, place: Place) -> LadderReader:
    """Return a reader of the file at `place` that knows what the manifest says of it."""
    step, group = place
    expected = ladder_header(
        template_id=manifest.template_id,
        codec=manifest.codec,
        num_rows=manifest.sizes.num_rows,
        width=manifest.sizes.width,
        blocks=manifest.sizes.block_groups[group],
        step=step,
    )
    return LadderReader(expected, name=record.name)
