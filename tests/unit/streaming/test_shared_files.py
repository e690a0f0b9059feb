"""Files in shared memory: one layout for both processes, and only what passes its checksums stays."""

import mmap
import os
from collections.abc import Iterator

import pytest

from intonaco.errors import PackDamagedError, SaveError
from intonaco.streaming.shared_files import (
    LENGTH_BYTES,
    CheckedFile,
    Layout,
    Lengths,
    ladders,
    make_shared_file,
    map_shared,
)
from intonaco.template.manifest import LadderRecord
from intonaco.template.pack_format import Role
from tests.support.templates import small_packed

PACKED = small_packed()
RECORD: LadderRecord = PACKED.manifest.bases[0]
CONTENT = PACKED.contents[RECORD.name]


@pytest.fixture
def memory() -> Iterator[mmap.mmap]:
    with mmap.mmap(-1, len(CONTENT) + 100) as memory:
        yield memory


def checked(memory: mmap.mmap) -> CheckedFile:
    return CheckedFile(RECORD, Role.BASIS, memory, 7)


def test_no_two_files_overlap_and_all_fit():
    layout = Layout.of(PACKED.manifest, num_manifest_bytes=50)
    ends = 50
    for record in PACKED.manifest.files():
        assert layout.offsets[record.name] == ends
        ends += record.num_bytes
    assert ends <= layout.lengths_offset < ends + LENGTH_BYTES
    assert layout.num_bytes == layout.lengths_offset + LENGTH_BYTES * len(ladders(PACKED.manifest))


def test_another_view_of_the_memory_sees_lengths_that_only_grow():
    layout = Layout.of(PACKED.manifest, num_manifest_bytes=50)
    with mmap.mmap(-1, layout.num_bytes) as memory:
        writer, reader = Lengths(memory, layout), Lengths(memory, layout)
        writer.raise_to(0, 300)
        writer.raise_to(1, 2**40)
        writer.raise_to(0, 200)
        seen = reader.read()
        del writer, reader
    assert seen == [300, 2**40, *[0] * (len(ladders(PACKED.manifest)) - 2)]


@pytest.mark.parametrize("size", [1, 7, 400, 10**6])
def test_pieces_of_any_size_become_the_file(memory, size):
    file = checked(memory)
    for start in range(0, len(CONTENT), size):
        file.add(CONTENT[start : start + size])
    assert (file.prefix(), file.num_verified_bytes) == (CONTENT, len(CONTENT))


def test_a_damaged_piece_is_refused_and_what_was_verified_stays(memory):
    file = checked(memory)
    half = RECORD.ends[2]
    file.add(CONTENT[:half])
    damaged = bytearray(CONTENT[half:])
    damaged[20] ^= 1
    with pytest.raises(PackDamagedError, match="CRC-32C"):
        file.add(bytes(damaged))
    assert file.rewind() == half
    file.add(CONTENT[half:])
    assert file.prefix() == CONTENT


def test_chunks_before_a_damaged_one_of_the_same_piece_stay(memory):
    file = checked(memory)
    damaged = bytearray(CONTENT)
    damaged[RECORD.ends[3] + 5] ^= 1
    with pytest.raises(PackDamagedError, match="CRC-32C"):
        file.add(bytes(damaged))
    assert file.rewind() == RECORD.ends[3]
    assert file.prefix() == CONTENT[: RECORD.ends[3]]


def test_more_than_the_manifest_says_is_refused(memory):
    file = checked(memory)
    file.add(CONTENT)
    with pytest.raises(PackDamagedError, match="longer than the manifest says"):
        file.add(b"x")


def test_a_kept_prefix_is_taken_up_to_its_damage(memory):
    file = checked(memory)
    damaged = bytearray(CONTENT)
    damaged[RECORD.ends[3] + 5] ^= 1
    file.restore(bytes(damaged))
    assert file.prefix() == CONTENT[: RECORD.ends[3]]
    assert file.num_bytes == RECORD.ends[3]


def test_a_kept_prefix_that_ends_inside_a_chunk_is_taken_to_the_chunk_before(memory):
    file = checked(memory)
    file.restore(CONTENT[: RECORD.ends[2] + 3])
    assert file.num_bytes == RECORD.ends[2]


def test_the_shared_file_has_no_name_and_holds_what_was_written():
    descriptor = make_shared_file()
    try:
        writer = map_shared(descriptor, 5000, is_writer=True)
        writer[4000:4003] = b"abc"
        reader = map_shared(descriptor, 5000, is_writer=False)
        assert reader[4000:4003] == b"abc"
        assert os.fstat(descriptor).st_nlink == 0
        reader.close()
        writer.close()
    finally:
        os.close(descriptor)


def test_more_memory_than_the_machine_has_is_refused_before_any_is_taken():
    descriptor = make_shared_file()
    try:
        with pytest.raises(SaveError, match=r"needs 1125899907 MB .* MB are free\)"):
            map_shared(descriptor, 2**50, is_writer=True)
        assert os.fstat(descriptor).st_size == 0
    finally:
        os.close(descriptor)
