"""Where each file of a template lies in the memory that processes share, and who checked it.

The process of the network writes, the others read: prefixes whose lengths they were told, or as much
as `Lengths` says is there. All compute the same layout from the manifest. The memory is an unlinked
temporary file, so nothing is left behind however any process ends.
"""

import contextlib
import mmap
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from intonaco.errors import PackDamagedError, PackError, SaveError
from intonaco.template.manifest import FileRecord, LadderRecord, TemplateManifest
from intonaco.template.pack_format import ChunkReader, Role

SHARED_MEMORY_FOLDER = Path("/dev/shm")
LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Offsets by file name, and the length of the whole; the manifest comes first, `Lengths` last."""

    offsets: dict[str, int]
    lengths_offset: int
    num_bytes: int

    @classmethod
    def of(cls, manifest: TemplateManifest, *, num_manifest_bytes: int) -> "Layout":
        offsets: dict[str, int] = {}
        at = num_manifest_bytes
        for record in manifest.files():
            if record.name not in offsets:
                offsets[record.name] = at
                at += record.num_bytes
        lengths_offset = -(-at // LENGTH_BYTES) * LENGTH_BYTES
        num_bytes = lengths_offset + LENGTH_BYTES * len(ladders(manifest))
        return cls(offsets=offsets, lengths_offset=lengths_offset, num_bytes=num_bytes)


class Lengths:
    """How much of each progressive file is there, checked; in the order of `ladders`.

    One process writes, others read at any time: a length is one aligned 64-bit store, made after the
    bytes that it counts. A reader checks those bytes anyway.
    """

    def __init__(self, memory: mmap.mmap, layout: Layout) -> None:
        self._lengths = np.frombuffer(memory, np.uint64, offset=layout.lengths_offset)

    def raise_to(self, index: int, num_bytes: int) -> None:
        """Say that so much of a file is there; what once was there stays."""
        if num_bytes > self._lengths[index]:
            self._lengths[index] = num_bytes

    def read(self) -> list[int]:
        return self._lengths.tolist()


def make_shared_file() -> int:
    """Return the descriptor of an empty file without a name, in memory where the system can."""
    folder = SHARED_MEMORY_FOLDER if SHARED_MEMORY_FOLDER.is_dir() else None
    descriptor, name = tempfile.mkstemp(prefix="intonaco-", dir=folder)
    Path(name).unlink()
    return descriptor


def map_shared(descriptor: int, num_bytes: int, *, is_writer: bool) -> mmap.mmap:
    """Return the first `num_bytes` of the file as memory; the writer makes it that long.

    Raises SaveError if there is no room: pages are claimed here, not when they are first written.
    """
    if is_writer:
        # A system may promise more than it has, and then ends some process: a manifest shall not.
        num_free = psutil.virtual_memory().available
        if num_bytes > num_free:
            raise _no_room(num_bytes, f"{num_free / 1e6:.0f} MB are free")
        try:
            # A sparse file would end the process, by SIGBUS, once the memory is full.
            os.posix_fallocate(descriptor, 0, num_bytes)
        except OSError as error:
            raise _no_room(num_bytes, str(error.strerror)) from None
        return mmap.mmap(descriptor, num_bytes)
    return mmap.mmap(descriptor, num_bytes, prot=mmap.PROT_READ)


def _no_room(num_bytes: int, reason: str) -> SaveError:
    return SaveError(
        f"template state needs {num_bytes / 1e6:.0f} MB of shared memory, which cannot be had "
        f"({reason}); free some, or edit without streaming"
    )


class CheckedFile:
    """One progressive file in shared memory; only bytes that pass its checksums are kept."""

    def __init__(self, record: LadderRecord, role: Role, memory: mmap.mmap, offset: int) -> None:
        self.record = record
        self._role = role
        self._memory = memory
        self._offset = offset
        self._reader = ChunkReader(role=role, name=record.name)
        self.num_bytes = 0

    @property
    def num_verified_bytes(self) -> int:
        return self._reader.num_verified_bytes

    def add(self, content: bytes) -> None:
        """Append bytes. Raises PackError if they are not what was written; then `rewind`."""
        if self.num_bytes + len(content) > self.record.num_bytes:
            raise PackDamagedError(f"{self.record.name} is longer than the manifest says")
        # Written first: chunks before a damaged one count as verified, so they have to be there.
        start = self._offset + self.num_bytes
        self._memory[start : start + len(content)] = content
        for _ in self._reader.feed(content):
            pass
        self.num_bytes += len(content)

    def rewind(self) -> int:
        """Forget what is not verified; return the length that stays."""
        kept = self.prefix()
        self._reader = ChunkReader(role=self._role, name=self.record.name)
        self.num_bytes = 0
        self.add(kept)
        return self.num_bytes

    def restore(self, content: bytes) -> None:
        """Start with a prefix from elsewhere, as far as it passes the checksums."""
        # What was verified before the damage stays; `rewind` drops the rest.
        with contextlib.suppress(PackError):
            self.add(content)
        self.rewind()

    def prefix(self) -> bytes:
        """Return the verified bytes."""
        return self._memory[self._offset : self._offset + self.num_verified_bytes]


def ladders(manifest: TemplateManifest) -> list[tuple[LadderRecord, Role]]:
    """Return every progressive file with its role: bases, then coefficients step by step."""
    rows = [(record, Role.BASIS) for record in manifest.bases]
    return rows + [(record, Role.COEFFICIENTS) for row in manifest.coefficients for record in row]


def whole_files(manifest: TemplateManifest) -> tuple[FileRecord, ...]:
    """Return the files that an edit needs whole before its first step: picture, mask, latents."""
    return manifest.picture, manifest.mask, manifest.latents
