"""Decoding a slice at a time: what is decoded first, and that slices give what the whole gives."""

import mmap

import numpy as np
import pytest

from intonaco.device.decoding import Decoding
from intonaco.streaming.shared_files import Layout, Lengths
from intonaco.template.pack_reader import PackReader, places
from intonaco.template.plain_decoder import PlainDecoder
from tests.support.templates import readable_packed

PACKED = readable_packed()
MANIFEST = PACKED.manifest
LAYOUT = Layout.of(MANIFEST, num_manifest_bytes=10)
PLACES = [place for _, place in places(MANIFEST)]


class Device:
    """Files in memory, their lengths, and the decoding of them."""

    def __init__(self, memory: mmap.mmap) -> None:
        for record, _ in places(MANIFEST):
            start = LAYOUT.offsets[record.name]
            memory[start : start + record.num_bytes] = PACKED.contents[record.name]
        self.reader = PackReader(MANIFEST, decode=PlainDecoder)
        self.decoding = Decoding(MANIFEST, self.reader, memory, LAYOUT)
        self._lengths = Lengths(memory, LAYOUT)

    def arrive(self, place, num_bytes: int | None = None) -> None:
        record = (
            MANIFEST.bases[place[1]]
            if place[0] is None
            else MANIFEST.coefficients[place[0]][place[1]]
        )
        self._lengths.raise_to(
            PLACES.index(place), record.num_bytes if num_bytes is None else num_bytes
        )

    def decoded(self) -> dict:
        return {place: self.decoding.num_decoded(place) for place in PLACES}


@pytest.fixture
def device() -> Device:
    return Device(mmap.mmap(-1, LAYOUT.num_bytes))


def length(place) -> int:
    return next(record.num_bytes for record, each in places(MANIFEST) if each == place)


def test_slices_give_the_numbers_that_whole_files_give(device):
    for place in PLACES:
        device.arrive(place)
    while device.decoding.ahead(0):
        pass
    whole = PackReader(MANIFEST, decode=PlainDecoder)
    for record, place in places(MANIFEST):
        whole.feed(*place, PACKED.contents[record.name])
    for step in range(MANIFEST.sizes.num_steps):
        for block in range(MANIFEST.sizes.num_blocks):
            for kind in (0, 1):
                sliced, expected = (
                    np.empty((MANIFEST.sizes.num_rows, MANIFEST.sizes.width), np.float32)
                    for _ in range(2)
                )
                device.reader.write(step, block, kind, sliced)
                whole.write(step, block, kind, expected)
                assert (sliced == expected).all()


def test_nothing_is_decoded_before_it_has_arrived(device):
    assert not device.decoding.ahead(0)
    assert set(device.decoded().values()) == {0}


def test_a_chunk_that_has_not_arrived_whole_waits(device):
    device.arrive((None, 0), MANIFEST.bases[0].ends[0] - 1)
    assert not device.decoding.ahead(0)
    assert device.decoded()[None, 0] == 0


def test_ahead_means_the_next_shard_first(device):
    for place in PLACES:
        device.arrive(place)
    last = MANIFEST.sizes.num_steps * len(MANIFEST.bases) - 1
    while device.decoding.ahead(last):
        pass
    decoded = device.decoded()
    first_step = [decoded[0, group] for group in range(len(MANIFEST.bases))]
    assert first_step == [0] * len(MANIFEST.bases)
    assert decoded[divmod(last, len(MANIFEST.bases))] > 0


def test_a_floor_is_decoded_at_once_and_nothing_beside_it(device):
    floors = (MANIFEST.coefficients[0][0].floor_bytes, MANIFEST.bases[0].ends[1])
    device.decoding.floors(0, coefficient_bytes=floors[0], basis_bytes=floors[1])
    decoded = device.decoded()
    assert (decoded[0, 0], decoded[None, 0]) == floors
    assert sum(decoded.values()) == sum(floors) > 0


def test_more_of_a_shard_ends_with_the_prefixes_that_it_was_given(device):
    half = MANIFEST.bases[0].longest_cut(length((None, 0)) // 2)
    while device.decoding.more_of(0, coefficient_bytes=length((0, 0)), basis_bytes=half):
        pass
    decoded = device.decoded()
    assert (decoded[0, 0], decoded[None, 0]) == (length((0, 0)), half)
    assert sum(decoded.values()) == length((0, 0)) + half


def test_what_was_decoded_and_how_long_that_took_is_counted(device):
    device.decoding.floors(0, coefficient_bytes=length((0, 0)), basis_bytes=length((None, 0)))
    assert device.decoding.num_bytes == sum(device.decoded().values())
    assert device.decoding.seconds > 0
