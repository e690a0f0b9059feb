"""The container of a template's files: framing, checksums, refusals. Knows no codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import PackBoundsError, PackDamagedError, PackFormatError
from intonaco.template.pack_format import (
    CHUNK_LENGTH,
    MAGIC,
    MAX_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    PREAMBLE,
    ChunkReader,
    ChunkWriter,
    Opening,
    Role,
)

HEADER = b"header"
PAYLOADS = [b"one", b"two two", b"three three three"]


def _write(payloads=PAYLOADS, header=HEADER) -> bytes:
    writer = ChunkWriter(Opening(role=Role.BASIS, header=header))
    for payload in payloads:
        writer.add(payload)
    return writer.content()


def _reader() -> ChunkReader:
    return ChunkReader(role=Role.BASIS, name="basis-0")


def _read(content: bytes) -> list[bytes]:
    return list(_reader().feed(content))


@given(st.lists(st.binary(min_size=1, max_size=300)), st.binary(max_size=100), st.data())
def test_a_file_fed_in_any_pieces_gives_the_payloads_that_went_in(payloads, header, data):
    content = _write(payloads, header)
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=8).map(sorted))
    reader, found = _reader(), []
    for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        found += reader.feed(content[start:end])
    assert (found, reader.opening, reader.num_verified_bytes, reader.num_pending_bytes) == (
        payloads,
        Opening(role=Role.BASIS, header=header),
        len(content),
        0,
    )


def test_every_prefix_gives_the_whole_chunks_in_it():
    content = _write()
    ends = [len(_write(PAYLOADS[:count])) for count in range(len(PAYLOADS) + 1)]
    found = [len(_read(content[:length])) for length in range(len(content) + 1)]
    assert found == [
        max(sum(end <= length for end in ends) - 1, 0) for length in range(len(content) + 1)
    ]


def test_the_writer_says_where_each_chunk_ends():
    writer = ChunkWriter(Opening(role=Role.BASIS, header=HEADER))
    ends = [writer.num_bytes, *(writer.add(payload) for payload in PAYLOADS)]
    assert ends == [len(_write(PAYLOADS[:count])) for count in range(len(PAYLOADS) + 1)]


@given(st.data())
def test_no_changed_bit_goes_unseen(data):
    """CRC-32C finds every single changed bit; a changed length makes the file wait or fail."""
    content = bytearray(_write())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    reader, found = _reader(), []
    try:
        for payload in reader.feed(bytes(content)):
            found.append(payload)
    except (PackDamagedError, PackBoundsError, PackFormatError):
        pass
    else:
        assert reader.num_pending_bytes > 0
    assert found == PAYLOADS[: len(found)]
    assert len(found) < len(PAYLOADS)


def test_chunks_in_another_order_are_seen():
    one, two = [len(_write(PAYLOADS[:count])) for count in (0, 1)]
    content = _write(PAYLOADS[:2])
    swapped = content[:one] + content[two:] + content[one:two]
    with pytest.raises(PackDamagedError, match=f"part at byte {one} "):
        _read(swapped)


def test_a_file_without_the_magic_bytes_is_refused():
    with pytest.raises(PackFormatError, match="magic bytes"):
        _read(b"PK" + _write()[2:])


def test_a_file_of_another_version_is_refused():
    preamble = PREAMBLE.pack(MAGIC, 2, Role.BASIS, len(HEADER))
    with pytest.raises(PackFormatError, match="version must be 1, got 2"):
        _read(preamble + _write()[PREAMBLE.size :])


def test_a_file_in_anothers_place_is_refused():
    reader = ChunkReader(role=Role.COEFFICIENTS, name="coefficients-0-0")
    with pytest.raises(PackFormatError, match=r"role must be 3 \(coefficients\), got 2"):
        list(reader.feed(_write()))


def test_a_header_longer_than_the_bound_is_refused_before_it_is_taken():
    reader = _reader()
    preamble = PREAMBLE.pack(MAGIC, 1, Role.BASIS, MAX_HEADER_BYTES + 1)
    with pytest.raises(PackBoundsError, match=f"at most {MAX_HEADER_BYTES} bytes"):
        list(reader.feed(preamble + bytes(1 << 16)))
    assert reader.num_pending_bytes == PREAMBLE.size


def test_a_chunk_without_payload_is_refused():
    with pytest.raises(PackBoundsError, match="has no payload"):
        _read(_write([]) + CHUNK_LENGTH.pack(0) + bytes(4))


def test_a_writer_refuses_what_a_reader_would():
    writer = ChunkWriter(Opening(role=Role.BASIS, header=HEADER))
    for payload in (b"", bytes(MAX_PAYLOAD_BYTES + 1)):
        with pytest.raises(PackBoundsError, match="payload bytes"):
            writer.add(payload)
    with pytest.raises(PackBoundsError, match="header"):
        ChunkWriter(Opening(role=Role.BASIS, header=bytes(MAX_HEADER_BYTES + 1)))
