"""One ladder as a file, and back from any prefix of it.

Joins the container (`pack_format.py`) and the increments (`increments.py`) under a header that says
which blocks, step and sizes the file is for. Payloads stay closed: their meaning is the codec's.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from intonaco.errors import PackBoundsError, PackDamagedError, PackFormatError
from intonaco.template.coded import MAX_PLANES, Increment, Ladder, check_shape
from intonaco.template.increments import IncrementReader, IncrementWriter, UnitRange
from intonaco.template.pack_format import (
    CHUNK_OVERHEAD_BYTES,
    MAX_PAYLOAD_BYTES,
    ChunkReader,
    ChunkWriter,
    Opening,
    Role,
)

HEADER = struct.Struct("<8sHHHIIB")
TAG_BYTES = 8
MAX_CODEC_CHARACTERS = 40
# A cut costs a chunk's overhead and loses up to a chunk: both stay at a few percent of the prefix.
MIN_CHUNK_BYTES = 256
MAX_CHUNK_BYTES = 1 << 15
CHUNKS_PER_PREFIX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderHeader:
    """What a ladder file is for.

    Attributes:
        template_tag: the first 8 bytes of the template's id.
        codec: id of the payloads' meaning.
        step: 0 in a basis file.
        first_block, num_blocks: the block group.
        num_rows, width: N and d.
        max_planes: most planes that a component of this file has.
    """

    role: Role
    template_tag: bytes
    codec: str
    step: int
    first_block: int
    num_blocks: int
    num_rows: int
    width: int
    max_planes: int

    @property
    def units(self) -> UnitRange:
        return UnitRange(
            first_block=self.first_block, num_blocks=self.num_blocks, max_planes=self.max_planes
        )

    def to_bytes(self) -> bytes:
        """Return the header's bytes, the codec's name last."""
        fixed = HEADER.pack(
            self.template_tag,
            self.step,
            self.first_block,
            self.num_blocks,
            self.num_rows,
            self.width,
            self.max_planes,
        )
        return fixed + self.codec.encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLadder:
    """A file and its cuts.

    Attributes:
        ends, errors: prefix lengths that end with a chunk, and what is left of the error there.
        floor_bytes: the end that holds the ladder's floor; 0 where that needs nothing.
    """

    content: bytes
    start_error: float
    ends: tuple[int, ...]
    errors: tuple[float, ...]
    floor_bytes: int


def write_ladder(header: LadderHeader, ladder: Ladder) -> WrittenLadder:
    """Return `ladder` as a file. A chunk ends at the floor, and else where it is long enough."""
    chunks = ChunkWriter(Opening(role=header.role, header=header.to_bytes()))
    increments = IncrementWriter(header.units)
    ends, errors = [chunks.num_bytes], [ladder.start_error]
    floor_bytes = 0
    pending = b""
    for index, increment in enumerate(ladder.increments):
        written = increments.write(increment)
        if pending and len(pending) + len(written) > MAX_PAYLOAD_BYTES:
            ends.append(chunks.add(pending))
            errors.append(ladder.increments[index - 1].error)
            pending = b""
        pending += written
        is_floor = index + 1 == ladder.floor
        is_last = index + 1 == len(ladder.increments)
        if is_floor or is_last or len(pending) >= _wanted_bytes(chunks.num_bytes):
            ends.append(chunks.add(pending))
            errors.append(increment.error)
            pending = b""
        if is_floor:
            floor_bytes = ends[-1]
    return WrittenLadder(
        content=chunks.content(),
        start_error=ladder.start_error,
        ends=tuple(ends),
        errors=tuple(errors),
        floor_bytes=floor_bytes,
    )


def _wanted_bytes(num_bytes_before: int) -> int:
    wanted = min(max(MIN_CHUNK_BYTES, num_bytes_before // CHUNKS_PER_PREFIX), MAX_CHUNK_BYTES)
    return wanted - CHUNK_OVERHEAD_BYTES


class LadderReader:
    """Takes a ladder file in pieces of any size and hands out the increments, or chunks, that are whole."""

    def __init__(self, expected: LadderHeader, *, name: str) -> None:
        """`expected` is what the manifest says; its `max_planes` is not compared."""
        self._expected = expected
        self._name = name
        self._chunks = ChunkReader(role=expected.role, name=name)
        self._header: LadderHeader | None = None
        self._increments: IncrementReader | None = None

    @property
    def num_verified_bytes(self) -> int:
        """Length of the prefix whose increments have been handed out."""
        return self._chunks.num_verified_bytes

    def feed(self, piece: bytes | memoryview) -> Iterator[Increment]:
        """Yield the increments that `piece` completes, in order. Raises PackError."""
        for chunk in self.feed_chunks(piece):
            try:
                if self._increments is None:
                    self._increments = IncrementReader(self.units)
                yield from self._increments.read(chunk)
            except PackBoundsError as error:
                raise PackBoundsError(f"{self._name}: {error}; build the template again") from None

    def feed_chunks(self, piece: bytes | memoryview) -> Iterator[bytes]:
        """Yield the verified chunks that `piece` completes, in order, for a reader of increments.

        Raises PackError.
        """
        for chunk in self._chunks.feed(piece):
            self._check_header()
            yield chunk

    def finish(self) -> None:
        """Raise PackDamagedError if what was fed does not end with a chunk: the file is cut short."""
        if self._chunks.num_pending_bytes or self._chunks.opening is None:
            raise PackDamagedError(
                f"{self._name}: ends inside a chunk, at byte "
                f"{self.num_verified_bytes + self._chunks.num_pending_bytes}; fetch the rest"
            )
        self._check_header()

    @property
    def units(self) -> UnitRange:
        """What the file's header says of its units; there is none before its first chunk."""
        if self._header is None:
            raise PackDamagedError(f"{self._name}: its header has not arrived; feed more of it")
        return self._header.units

    def _check_header(self) -> None:
        if self._header is None:
            opening = self._chunks.opening
            header = parse_header(
                self._expected.role, opening.header if opening else b"", self._name
            )
            check_header(header, self._expected, self._name)
            self._header = header


def parse_header(role: Role, content: bytes, name: str) -> LadderHeader:
    """Return the header of a ladder file. Raises PackFormatError or PackBoundsError."""
    codec = content[HEADER.size :]
    if not HEADER.size < len(content) <= HEADER.size + MAX_CODEC_CHARACTERS or not codec.isascii():
        raise PackFormatError(
            f"{name}: a header has {HEADER.size} bytes and a codec's name of 1 to "
            f"{MAX_CODEC_CHARACTERS} ASCII characters, got {len(content)} bytes; fetch it again"
        )
    tag, step, first_block, num_blocks, num_rows, width, max_planes = HEADER.unpack_from(content)
    if not 1 <= max_planes <= MAX_PLANES:
        raise PackBoundsError(f"{name}: max_planes must lie in 1..{MAX_PLANES}, got {max_planes}")
    header = LadderHeader(
        role=role,
        template_tag=tag,
        codec=codec.decode("ascii"),
        step=step,
        first_block=first_block,
        num_blocks=num_blocks,
        num_rows=num_rows,
        width=width,
        max_planes=max_planes,
    )
    try:
        check_shape(
            num_steps=step + 1, num_blocks=first_block + num_blocks, num_rows=num_rows, width=width
        )
    except PackBoundsError as error:
        raise PackBoundsError(f"{name}: {error}; fetch it again") from None
    return header


def check_header(header: LadderHeader, expected: LadderHeader, name: str) -> None:
    """Raise PackFormatError naming every field that is not what the manifest says."""
    fields = ("template_tag", "codec", "step", "first_block", "num_blocks", "num_rows", "width")
    wrong = [
        f"{field} {getattr(header, field)!r}, expected {getattr(expected, field)!r}"
        for field in fields
        if getattr(header, field) != getattr(expected, field)
    ]
    if wrong:
        raise PackFormatError(
            f"{name}: is another file than the manifest says: {'; '.join(wrong)}; fetch it again"
        )
