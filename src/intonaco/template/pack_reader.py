"""From what has arrived of a template to keys and values, unit by unit, at any time; numpy alone.

Takes prefixes of basis and coefficient files, in pieces of any size and any order of files, and writes
each unit as good as what is there allows: what has not arrived counts as zero. Knows nothing of
disks, links or clocks, and imports no torch: a process that only decodes stays small and starts fast.

Shape letters: N template rows, d width.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import ManifestError, PackError, TemplateMissingError
from intonaco.template.coded import KINDS
from intonaco.template.decoder import CODEC, StateDecoder
from intonaco.template.increments import NUM_KINDS, UNIT, HeadTable, UnitRange
from intonaco.template.ladder_file import LadderReader
from intonaco.template.manifest import LadderRecord, TemplateManifest
from intonaco.template.pack_writer import ladder_header
from intonaco.template.plane_decoder import HeadReader, MakeDecoder

Place = tuple[int | None, int]
"""Step (None for a basis file) and block group."""
Unit = tuple[int, int]
"""Block and kind: 0 keys, 1 values."""


class PackReader:
    """A template's state, read from whatever prefixes of its files have been fed.

    Several may each decode some units of the same files, in threads or processes of their own; one is
    not for several threads at once.
    """

    def __init__(
        self,
        manifest: TemplateManifest,
        *,
        decode: MakeDecoder,
        units: Collection[Unit] | None = None,
    ) -> None:
        """Prepare to read; nothing is decoded yet.

        Args:
            decode: how bit-planes are read, from `fast_planes.plane_decoder_for`.
            units: those that are decoded, None = all; what files hold of others is checked and left.

        Raises ManifestError for a codec that is not known here, TemplateMissingError for `units`
        that the template does not have.
        """
        if manifest.codec != CODEC:
            raise ManifestError(
                f"codec must be {CODEC!r}, got {manifest.codec!r}; build the template again, or read "
                "it with the version that wrote it"
            )
        self._manifest = manifest
        sizes = self._sizes = manifest.sizes
        every = {(block, kind) for block in range(sizes.num_blocks) for kind in KINDS}
        self._units = every if units is None else frozenset(units)
        if not self._units <= every:
            raise TemplateMissingError(
                f"units must be (block, kind) of blocks 0..{sizes.num_blocks - 1} and kinds 0 and 1, "
                f"got {sorted(self._units - every)[:4]}; name units of this template"
            )
        self._ladders = {
            place: open_ladder(manifest, record, place) for record, place in places(manifest)
        }
        self._heads: dict[Place, HeadReader] = {}
        self._decoder = StateDecoder(
            num_steps=sizes.num_steps,
            num_blocks=sizes.num_blocks,
            num_rows=sizes.num_rows,
            width=sizes.width,
            decode=decode,
        )

    def feed(self, step: int | None, group: int, piece: bytes | memoryview) -> None:
        """Take the next bytes of a basis file (`step` None) or coefficient file.

        Raises PackError, which names the file; what chunks before brought stays usable.
        """
        ladder = self._ladders[step, group]
        for chunk in ladder.feed_chunks(piece):
            if (step, group) not in self._heads:
                self._heads[step, group] = self._decoder.open_heads(ladder.units)
            table = self._heads[step, group].read_heads(chunk)
            try:
                self._take(chunk, table, ladder.units)
            except PackError as error:
                raise type(error)(
                    f"{self._name(step, group)}: {error}; build the template again"
                ) from None

    def _take(self, chunk: bytes, table: HeadTable, units: UnitRange) -> None:
        for file_unit in sorted(set(table.rows[:, UNIT].tolist())):
            block, kind = units.first_block + file_unit // NUM_KINDS, file_unit % NUM_KINDS
            if (block, kind) in self._units:
                self._decoder.take(block, kind, chunk, table.rows, file_unit)
        if table.error is not None:
            raise table.error

    def _name(self, step: int | None, group: int) -> str:
        return (
            self._manifest.bases[group].name
            if step is None
            else self._manifest.coefficients[step][group].name
        )

    def num_verified_bytes(self, step: int | None, group: int) -> int:
        """Return how many leading bytes of a file are in use; fetching goes on from there."""
        return self._ladders[step, group].num_verified_bytes

    def write(self, step: int, block: int, kind: int, out_Nd: NDArray[np.float32]) -> None:
        """Write a unit's matrix as it is known now; `out_Nd` is C-contiguous.

        Nothing of its size is made beside it. Raises TemplateMissingError for a unit that the template
        does not have, or that was left out of `units`.
        """
        self._check_unit(step, block, kind)
        self._decoder.write(step, block, kind, out_Nd)

    def _check_unit(self, step: int, block: int, kind: int) -> None:
        if not 0 <= step < self._sizes.num_steps or (block, kind) not in self._units:
            raise TemplateMissingError(
                f"template state has no unit (step {step}, block {block}, kind {kind}), it has steps "
                f"0..{self._sizes.num_steps - 1} and blocks 0..{self._sizes.num_blocks - 1}, of which "
                f"{len(self._units)} of {2 * self._sizes.num_blocks} units are read here; build it for "
                "this model and number of steps"
            )


def places(manifest: TemplateManifest) -> list[tuple[LadderRecord, Place]]:
    """Return every ladder file with its place: the bases, then coefficients step by step."""
    found: list[tuple[LadderRecord, Place]] = [
        (record, (None, group)) for group, record in enumerate(manifest.bases)
    ]
    for step, row in enumerate(manifest.coefficients):
        found += [(record, (step, group)) for group, record in enumerate(row)]
    return found


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
