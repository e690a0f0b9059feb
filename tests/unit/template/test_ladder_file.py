"""Ladders as files: what goes in comes out, from any prefix; hostile files are refused."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intonaco.errors import PackBoundsError, PackDamagedError, PackError, PackFormatError
from intonaco.template.coded import Increment, Ladder
from intonaco.template.increments import (
    IncrementReader,
    IncrementWriter,
    UnitRange,
    decode_number,
    encode_number,
)
from intonaco.template.ladder_file import LadderReader, write_ladder
from intonaco.template.pack_format import ChunkWriter, Opening, Role
from tests.support.ladders import header, ladders, plain_ladder

UNITS = UnitRange(first_block=2, num_blocks=3, max_planes=8)


def _read(content: bytes, expected=None) -> list[Increment]:
    return list(LadderReader(expected or header(), name="coefficients-5-1").feed(content))


def _stored(ladder: Ladder) -> list[Increment]:
    return [replace(increment, error=math.inf) for increment in ladder.increments]


@given(ladders())
def test_a_ladder_written_and_read_is_the_same_but_for_its_errors(ladder):
    assert _read(write_ladder(header(), ladder).content) == _stored(ladder)


@given(ladders(), st.data())
@settings(max_examples=40)
def test_any_prefix_gives_leading_increments_and_the_rest_completes_them(ladder, data):
    content = write_ladder(header(), ladder).content
    cut = data.draw(st.integers(0, len(content)))
    reader = LadderReader(header(), name="coefficients-5-1")
    first = list(reader.feed(content[:cut]))
    assert first == _stored(ladder)[: len(first)]
    assert first + list(reader.feed(content[cut:])) == _stored(ladder)


@given(ladders())
def test_every_cut_is_a_file_that_ends_with_a_chunk_and_says_what_error_is_left(ladder):
    written = write_ladder(header(), ladder)
    for end, error in zip(written.ends, written.errors, strict=True):
        reader = LadderReader(header(), name="cut")
        found = list(reader.feed(written.content[:end]))
        reader.finish()
        left = ladder.increments[len(found) - 1].error if found else ladder.start_error
        assert (reader.num_verified_bytes, error) == (end, left)


@given(ladders())
def test_the_floor_is_a_cut_that_holds_just_the_floors_increments(ladder):
    written = write_ladder(header(), ladder)
    assert written.floor_bytes in (0, *written.ends)
    assert len(_read(written.content[: written.floor_bytes])) == ladder.floor


def test_heads_of_a_small_template_take_three_bytes():
    writer = IncrementWriter(UNITS)
    ladder = plain_ladder()
    assert {len(writer.write(one)) - len(one.payload) for one in ladder.increments} == {3}


def test_cuts_stay_within_a_sixteenth_of_the_prefix():
    ladder = plain_ladder(num_increments=190, payload_bytes=100)
    ends = write_ladder(header(), ladder).ends
    # The increment that fills a chunk is taken whole: 103 bytes here.
    assert all(end - start <= max(256, start // 16) + 103 for start, end in pairwise(ends))


@given(st.integers(0, (1 << 24) - 1))
def test_numbers_come_back(number):
    encoded = encode_number(number)
    assert decode_number(encoded, 0) == (number, len(encoded))


@given(st.binary(max_size=60))
def test_any_chunk_gives_increments_or_a_bounds_error(chunk):
    found = []
    try:
        for increment in IncrementReader(UNITS).read(chunk):
            found.append(increment)
    except PackBoundsError:
        pass
    assert sum(len(increment.payload) for increment in found) <= len(chunk)


@given(ladders(max_increments=12), st.lists(st.tuples(st.integers(0), st.integers(1, 255))))
@settings(max_examples=60)
def test_a_file_with_changed_bytes_gives_only_what_was_written_or_is_refused(ladder, changes):
    content = bytearray(write_ladder(header(), ladder).content)
    for place, change in changes:
        content[place % len(content)] ^= change
    found = []
    try:
        for increment in LadderReader(header(), name="changed").feed(bytes(content)):
            found.append(increment)
    except PackError:
        pass
    assert found == _stored(ladder)[: len(found)]


def test_a_file_of_another_step_or_template_is_refused_naming_both():
    content = write_ladder(header(step=6, template_tag=bytes(8)), plain_ladder()).content
    with pytest.raises(PackFormatError, match=r"template_tag .*; step 6, expected 5"):
        _read(content)


def test_a_header_that_is_too_short_is_refused():
    content = ChunkWriter(Opening(role=Role.COEFFICIENTS, header=b"short")).content()
    reader = LadderReader(header(), name="short")
    assert list(reader.feed(content)) == []
    with pytest.raises(PackFormatError, match="got 5 bytes"):
        reader.finish()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"max_planes": 0}, "max_planes"),
        ({"max_planes": 17}, "max_planes"),
        ({"num_rows": 1 << 21}, "num_rows"),
        ({"width": 0}, "width"),
        ({"num_blocks": 2000}, "num_blocks"),
    ],
)
def test_sizes_outside_the_formats_bounds_are_refused(changes, named):
    hostile = header(**changes)
    writer = ChunkWriter(Opening(role=Role.COEFFICIENTS, header=hostile.to_bytes()))
    writer.add(b"x")
    with pytest.raises(PackBoundsError, match=named):
        _read(writer.content(), hostile)


@pytest.mark.parametrize(
    ("chunk", "told"),
    [
        (bytes([12, 0, 0]), "names unit 6"),
        (bytes([0, 0, 5, 0, 0]), "longer than the 2 bytes left"),
        (bytes([1, 0, 1, 9, 0]), "at most 8 in the end"),
        (bytes([1, 0, 240, 1, 16, 0, 1, 0]), "components 0..4095"),
        (bytes([0, 193, 1, 0]), "may be left out"),
        (bytes([1, 0, 0, 1, 0]), "0 components"),
        (bytes([1, 0, 1, 0, 0]), "0 planes"),
        (bytes([0, 0, 0, 1, 0, 2, 1, 0]), "equally many"),
        (bytes([192]), "cut short"),
        (bytes([240, 0, 0]), "cut short"),
        (bytes([241, 0, 0, 0]), "starts with more than 240"),
    ],
)
def test_increments_that_break_the_format_are_refused(chunk, told):
    with pytest.raises(PackBoundsError, match=told):
        list(IncrementReader(UNITS).read(chunk))


def test_a_file_that_ends_inside_a_chunk_is_cut_short():
    content = write_ladder(header(), plain_ladder()).content
    reader = LadderReader(header(), name="cut")
    list(reader.feed(content[:-1]))
    with pytest.raises(PackDamagedError, match="ends inside a chunk"):
        reader.finish()


def test_a_writer_refuses_a_block_outside_its_group():
    stray = replace(plain_ladder().increments[0], block=5)
    with pytest.raises(PackBoundsError, match="block 5, kind 0 lies outside"):
        write_ladder(header(), Ladder(start_error=1.0, increments=(stray,), floor=0))


def test_a_writer_refuses_numbers_that_the_format_cannot_hold():
    with pytest.raises(PackBoundsError, match="number must lie in"):
        encode_number(1 << 24)
