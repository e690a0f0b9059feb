"""The numbering of strands, and the bytes of frames."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import PackBoundsError, PackDamagedError
from intonaco.template.frames import Frame, frame_from_bytes, row_codes, step_codes
from intonaco.template.strands import (
    MAX_GROUPS,
    Strand,
    group_range,
    group_sizes,
    strand_number,
    strand_of,
)


@given(st.integers(0, 2000), st.integers(1, 8))
def test_a_strand_and_its_number_name_each_other(number: int, profiles: int) -> None:
    if number >= 2 + MAX_GROUPS * (1 + profiles):
        return
    assert strand_number(strand_of(number, profiles=profiles), profiles=profiles) == number


def test_a_strand_beyond_all_groups_is_refused() -> None:
    with pytest.raises(PackBoundsError, match="256 component groups"):
        strand_of(2 + MAX_GROUPS * 9, profiles=8)


@given(st.integers(1, 600))
def test_groups_cover_every_component_once(num_components: int) -> None:
    ranges = group_sizes(num_components)
    covered = [index for start, end in ranges for index in range(start, end)]
    assert covered == list(range(num_components))


def test_group_sizes_start_small() -> None:
    sizes = [end - start for start, end in map(group_range, range(8))]
    assert sizes == [1, 1, 2, 4, 8, 16, 16, 16]


def test_the_docs_numbering_holds() -> None:
    assert strand_of(2 + 3 * 9 + 1 + 5, profiles=8) == Strand(
        part="coefficients", group=3, profile=5
    )


def _frame() -> Frame:
    return Frame(
        row_codes_N=np.array([0, 15, 7], np.uint8),
        step_codes_S=np.array([-127, 4], np.int8),
        profiles_QS=np.array([[127, 0], [-3, 127]], np.int8),
    )


def test_a_frame_comes_back_from_its_bytes() -> None:
    back = frame_from_bytes(_frame().to_bytes(), num_rows=3, num_steps=2, num_profiles=2)
    assert back.to_bytes() == _frame().to_bytes()


def test_a_frame_is_as_long_as_the_docs_say() -> None:
    # Two bytes of rows, two of steps, four of profiles; 0x0f 0x70 are the rows.
    assert _frame().to_bytes().hex() == "0f70" + "8104" + "7f00fd7f"


def test_a_frame_of_another_length_is_refused() -> None:
    with pytest.raises(PackDamagedError, match="has 8 bytes, got 7"):
        frame_from_bytes(_frame().to_bytes()[:-1], num_rows=3, num_steps=2, num_profiles=2)


def test_scales_are_rounded_to_half_and_quarter_octaves() -> None:
    frame = Frame(
        row_codes_N=row_codes(np.array([1.0, 0.5, 2.0**-20])),
        step_codes_S=step_codes(np.array([1.0, 2.0**0.25])),
        profiles_QS=np.zeros((1, 2), np.int8),
    )
    assert frame.row_scales.tolist() == [1.0, 0.5, 2.0**-7.5]
    assert frame.step_scales.tolist() == [1.0, 2.0**0.25]
