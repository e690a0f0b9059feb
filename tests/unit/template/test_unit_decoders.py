"""Whole files through both decoders: the same numbers, and the same refusals of hostile bytes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intonaco.errors import PackBoundsError, PackDamagedError, PackError
from intonaco.template.coded import KINDS, Increment
from intonaco.template.decoder import StateDecoder
from intonaco.template.increments import UnitRange
from intonaco.template.pack_format import ChunkWriter, Opening, Role
from intonaco.template.pack_reader import PackReader, open_ladder
from tests.support.plane_decoders import WAYS, decoder_of, needs_numba
from tests.support.templates import (
    BLOCK_GROUPS,
    NUM_ROWS,
    NUM_STEPS,
    WIDTH,
    readable_coded,
    readable_packed,
)

PACKED = readable_packed()
RECORD = PACKED.manifest.bases[1]
CONTENT = PACKED.contents[RECORD.name]
BLOCKS = BLOCK_GROUPS[1]
UNITS = UnitRange(first_block=BLOCKS[0], num_blocks=len(BLOCKS), max_planes=16)
LADDER = readable_coded().bases[1].increments


def _state(reader: PackReader) -> list[list]:
    """Return all units of the second block group at all steps."""
    made, units = np.empty((NUM_ROWS, WIDTH), np.float32), []
    for step in range(NUM_STEPS):
        for block in BLOCKS:
            for kind in KINDS:
                reader.write(step, block, kind, made)
                units.append(made.tolist())
    return units


def _read(way: str, content: bytes) -> tuple[list[list], type | None]:
    """Return the state after `content`, and the class of the error if it was refused."""
    reader, error = PackReader(PACKED.manifest, decode=decoder_of(way)), None
    try:
        reader.feed(None, 1, content)
    except PackError as found:
        error = type(found)
    return _state(reader), error


def _file_of(chunks: list[bytes]) -> bytes:
    """Return a basis file whose checksums are right, whatever its chunks hold."""
    header_end = int.from_bytes(CONTENT[12:16], "little")
    writer = ChunkWriter(Opening(role=Role.BASIS, header=CONTENT[16 : 16 + header_end]))
    for chunk in chunks:
        writer.add(chunk)
    return writer.content()


def _chunks() -> list[bytes]:
    ladder = open_ladder(PACKED.manifest, RECORD, (None, 1))
    return list(ladder.feed_chunks(CONTENT))


@needs_numba
@settings(max_examples=25, deadline=None)
@given(st.integers(0, len(CONTENT)))
def test_any_prefix_gives_the_same_numbers_both_ways(cut: int):
    assert _read("plain", CONTENT[:cut]) == _read("compiled", CONTENT[:cut])


@needs_numba
@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damage_behind_good_checksums_is_read_or_refused_alike(data: st.DataObject):
    """Everything that a chunk can hold: heads, frames and planes, damaged anywhere."""
    chunks = [bytearray(chunk) for chunk in _chunks()]
    for _ in range(data.draw(st.integers(1, 3))):
        chunk = data.draw(st.sampled_from(chunks))
        place = data.draw(st.integers(0, len(chunk) - 1))
        kind = data.draw(st.sampled_from(["change", "cut", "insert"]))
        if kind == "change":
            chunk[place] = data.draw(st.integers(0, 255))
        elif kind == "cut" and place:
            del chunk[place:]
        else:
            chunk[place:place] = data.draw(st.binary(min_size=1, max_size=6))
    content = _file_of([bytes(chunk) for chunk in chunks])
    assert _read("plain", content) == _read("compiled", content)


@needs_numba
@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=80))
def test_any_bytes_are_heads_or_are_refused_alike(chunk: bytes):
    found = []
    for way in WAYS:
        reader = _decoder(way).open_heads(UNITS)
        tables = [reader.read_heads(chunk) for _ in range(2)]
        found.append([(table.rows.tolist(), type(table.error)) for table in tables])
    assert found[0] == found[1]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    decoder_of(request.param)
    return request.param


def _decoder(way: str) -> StateDecoder:
    return StateDecoder(
        num_steps=NUM_STEPS, num_blocks=5, num_rows=NUM_ROWS, width=WIDTH, decode=decoder_of(way)
    )


def _first(strand: int) -> Increment:
    return next(one for one in LADDER if one.first_component == strand)


def _refusal(way: str, *increments: Increment) -> type[PackError]:
    decoder = _decoder(way)
    for increment in increments[:-1]:
        decoder.add(increment)
    with pytest.raises(PackError) as caught:
        decoder.add(increments[-1])
    return type(caught.value)


def test_a_strand_that_no_unit_has_is_refused(way: str):
    assert _refusal(way, replace(_first(2), first_component=4095)) is PackBoundsError


def test_a_group_beyond_the_width_is_refused(way: str):
    last = 2 + 5 * (1 + NUM_STEPS)
    assert _refusal(way, replace(_first(2), first_component=last)) is PackBoundsError


def test_two_strands_in_one_increment_are_refused(way: str):
    assert _refusal(way, replace(_first(2), num_components=2)) is PackBoundsError


def test_planes_out_of_order_are_refused(way: str):
    assert _refusal(way, replace(_first(2), first_plane=3)) is PackDamagedError


def test_the_same_planes_twice_are_refused(way: str):
    assert _refusal(way, _first(2), _first(2)) is PackDamagedError


def test_exponents_beyond_the_format_are_refused(way: str):
    payload = bytes([128]) + _first(2).payload[1:]
    assert _refusal(way, replace(_first(2), payload=payload)) is PackDamagedError


def test_a_damaged_plane_leaves_its_strand_as_it_was(way: str):
    decoder, first = _decoder(way), _first(2)
    made = [np.empty((NUM_ROWS, WIDTH), np.float32) for _ in range(2)]
    for increment in LADDER[:40]:
        decoder.add(increment)
    decoder.write(0, first.block, first.kind, made[0])
    planes = sum(one.num_planes for one in LADDER[:40] if _is_like(one, first))
    with pytest.raises(PackDamagedError):
        decoder.add(replace(first, first_plane=planes, num_planes=1, payload=b"\\x10"))
    decoder.write(0, first.block, first.kind, made[1])
    assert np.array_equal(*made)


def _is_like(one: Increment, other: Increment) -> bool:
    return (one.block, one.kind, one.first_component) == (
        other.block,
        other.kind,
        other.first_component,
    )


def test_units_grow_beyond_the_room_they_start_with(way: str):
    """Strands of later component groups arrive before those of earlier ones."""
    decoder = _decoder(way)
    by_group = sorted(LADDER, key=lambda one: (one.first_plane, -one.first_component))
    for increment in by_group:
        decoder.add(increment)
    expected = _decoder("plain")
    for increment in LADDER:
        expected.add(increment)
    for step in range(NUM_STEPS):
        for block in BLOCKS:
            for got, wanted in zip(
                decoder.read(step, block), expected.read(step, block), strict=True
            ):
                assert np.array_equal(got, wanted)
