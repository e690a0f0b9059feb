"""The container that every file of a template uses: an opening, then chunks with a running checksum.

    opening  magic, version, role, header length | header | CRC-32C of all before
    chunk    payload length | payload | CRC-32C of every byte so far, checksums left out
    chunk    ...

Any prefix of a file holds some number of whole chunks; those can be checked and used, what follows
them waits. Knows nothing of what headers and payloads mean. All integers are little-endian.
The format, for readers in any language: docs/pack-format.md.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

import google_crc32c

from intonaco.errors import PackBoundsError, PackDamagedError, PackFormatError

MAGIC = b"\x89ITN\r\n\x1a\n"
FORMAT_VERSION = 1
PREAMBLE = struct.Struct("<8sHHI")
CHUNK_LENGTH = struct.Struct("<H")
CHECKSUM = struct.Struct("<I")
MAX_HEADER_BYTES = 1 << 20
MAX_PAYLOAD_BYTES = (1 << 16) - 1
MAX_FILE_BYTES = 1 << 32
CHUNK_OVERHEAD_BYTES = CHUNK_LENGTH.size + CHECKSUM.size


class Role(IntEnum):
    """What a file holds."""

    LATENTS = 1
    BASIS = 2
    COEFFICIENTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The first part of a file; what the header means depends on the role."""

    role: Role
    header: bytes

    @property
    def num_bytes(self) -> int:
        return PREAMBLE.size + len(self.header) + CHECKSUM.size


def extend_checksum(checksum: int, content: bytes) -> int:
    """Return the CRC-32C of what `checksum` covers followed by `content`; start from 0."""
    return cast("int", google_crc32c.extend(checksum, content))


class ChunkWriter:
    """Frames one file in memory, chunk by chunk."""

    def __init__(self, opening: Opening) -> None:
        if len(opening.header) > MAX_HEADER_BYTES:
            raise PackBoundsError(
                f"a header has at most {MAX_HEADER_BYTES} bytes, got {len(opening.header)}; "
                "code fewer blocks or components in one file"
            )
        preamble = PREAMBLE.pack(MAGIC, FORMAT_VERSION, opening.role, len(opening.header))
        self._content = bytearray(preamble + opening.header)
        self._checksum = extend_checksum(0, bytes(self._content))
        self._content += CHECKSUM.pack(self._checksum)

    @property
    def num_bytes(self) -> int:
        """Bytes written so far; always the end of a chunk."""
        return len(self._content)

    def add(self, payload: bytes) -> int:
        """Append one chunk; return the file's length after it."""
        if not 1 <= len(payload) <= MAX_PAYLOAD_BYTES:
            raise PackBoundsError(
                f"a chunk has 1 to {MAX_PAYLOAD_BYTES} payload bytes, got {len(payload)}; "
                "split the payload"
            )
        framed = CHUNK_LENGTH.pack(len(payload)) + payload
        self._checksum = extend_checksum(self._checksum, framed)
        self._content += framed + CHECKSUM.pack(self._checksum)
        return len(self._content)

    def content(self) -> bytes:
        """Return the file."""
        return bytes(self._content)


class ChunkReader:
    """Takes a file in pieces of any size; hands out the opening, then verified payloads.

    Holds at most one header or chunk, whatever the lengths in the file claim.
    """

    def __init__(self, *, role: Role, name: str) -> None:
        self.opening: Opening | None = None
        self.num_verified_bytes = 0
        self._role = role
        self._name = name
        self._pending = bytearray()
        self._checksum = 0

    @property
    def num_pending_bytes(self) -> int:
        """Bytes taken that do not yet make a whole chunk."""
        return len(self._pending)

    def feed(self, piece: bytes | memoryview) -> Iterator[bytes]:
        """Yield each payload that `piece` completes.

        Raises PackFormatError, PackBoundsError or PackDamagedError; what was yielded stays valid,
        and nothing more can be fed.
        """
        view = memoryview(piece)
        while True:
            wanted = self._num_wanted_bytes()
            while wanted > len(self._pending) and view:
                missing = wanted - len(self._pending)
                self._pending += view[:missing]
                view = view[missing:]
                wanted = self._num_wanted_bytes()
            if wanted > len(self._pending):
                return
            if self.opening is None:
                self._take_opening()
            else:
                yield self._take_chunk()

    def _num_wanted_bytes(self) -> int:
        """Return how long the pending part must be; grows as its own length becomes known."""
        if self.opening is None:
            if len(self._pending) < PREAMBLE.size:
                return PREAMBLE.size
            return PREAMBLE.size + self._header_bytes() + CHECKSUM.size
        if len(self._pending) < CHUNK_LENGTH.size:
            return CHUNK_LENGTH.size
        (num_payload_bytes,) = CHUNK_LENGTH.unpack_from(self._pending)
        if num_payload_bytes == 0:
            raise PackBoundsError(
                f"{self._name}: the chunk at byte {self.num_verified_bytes} has no payload; a chunk "
                "has at least 1 byte; fetch the file again"
            )
        return int(num_payload_bytes) + CHUNK_OVERHEAD_BYTES

    def _header_bytes(self) -> int:
        magic, version, role, num_header_bytes = PREAMBLE.unpack_from(self._pending)
        if magic != MAGIC:
            raise PackFormatError(
                f"{self._name}: does not start with the magic bytes {MAGIC.hex()}; it is no file of "
                "a template"
            )
        if version != FORMAT_VERSION:
            raise PackFormatError(
                f"{self._name}: format version must be {FORMAT_VERSION}, got {version}; build the "
                "template again, or read it with the version that wrote it"
            )
        if role != self._role:
            raise PackFormatError(
                f"{self._name}: role must be {int(self._role)} ({self._role.name.lower()}), got "
                f"{role}; the manifest names another file"
            )
        if num_header_bytes > MAX_HEADER_BYTES:
            raise PackBoundsError(
                f"{self._name}: a header has at most {MAX_HEADER_BYTES} bytes, got "
                f"{num_header_bytes}; fetch the file again"
            )
        return int(num_header_bytes)

    def _take_opening(self) -> None:
        body = self._take_checked(0)
        self.opening = Opening(role=self._role, header=body[PREAMBLE.size :])

    def _take_chunk(self) -> bytes:
        return self._take_checked(self._checksum)[CHUNK_LENGTH.size :]

    def _take_checked(self, checksum_before: int) -> bytes:
        body = bytes(self._pending[: -CHECKSUM.size])
        (stored,) = CHECKSUM.unpack_from(self._pending, len(body))
        computed = extend_checksum(checksum_before, body)
        if stored != computed:
            raise PackDamagedError(
                f"{self._name}: the part at byte {self.num_verified_bytes} has CRC-32C "
                f"{computed:08x}, recorded is {stored:08x}; fetch it again from there"
            )
        self._checksum = computed
        self.num_verified_bytes += len(self._pending)
        self._pending.clear()
        return body
