"""Clean latents as a file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import PackBoundsError, PackDamagedError, PackError, PackFormatError
from intonaco.template.latents_file import SIZES, read_latents, write_latents
from intonaco.template.pack_format import ChunkWriter, Opening, Role

LATENTS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _file(header: bytes, payload: bytes) -> bytes:
    writer = ChunkWriter(Opening(role=Role.LATENTS, header=header))
    writer.add(payload)
    return writer.content()


def test_latents_come_back_exactly():
    many = np.random.default_rng(0).normal(size=(1, 400, 48)).astype(np.float32)
    assert (read_latents(write_latents(many), name="latents") == many).all()


def test_a_file_cut_short_is_refused():
    with pytest.raises(PackDamagedError, match="ends inside a chunk"):
        read_latents(write_latents(LATENTS)[:-1], name="latents")


def test_sizes_that_the_bytes_do_not_fill_are_refused_before_anything_is_made():
    with pytest.raises(PackBoundsError, match="got 96"):
        read_latents(_file(SIZES.pack(1 << 31, 1 << 31, 1), LATENTS.tobytes()), name="latents")


def test_a_header_of_another_length_is_refused():
    with pytest.raises(PackFormatError, match="has 12 bytes, got 8"):
        read_latents(_file(bytes(8), b"x"), name="latents")


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(PackFormatError, match="finite"):
        read_latents(write_latents(np.full((1, 1, 2), np.nan, np.float32)), name="latents")


def test_latents_of_other_than_three_sizes_are_refused():
    with pytest.raises(PackBoundsError, match="3 sizes"):
        write_latents(LATENTS[0])


@given(st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=4))
def test_a_changed_file_never_gives_other_latents(changes):
    content = bytearray(write_latents(LATENTS))
    for place, change in changes:
        content[place % len(content)] ^= change
    try:
        found = read_latents(bytes(content), name="latents")
    except PackError:
        return
    assert (found == LATENTS).all()
