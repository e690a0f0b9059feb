"""The frame of a unit: scales of rows and steps, temporal profiles; small, and sent first.

Row n of step t is coded after multiplication by row_scales[n] * step_scales[t]: the grid is then
equally fine everywhere in units of what an edit notices. Both are powers of two on a coarse grid,
so a frame costs N / 2 + S + Q * S bytes.

    4 bits x N          row code r, high half first, to a byte: scale 2 ** (-r / 2)
    int8 x S            step code s: scale 2 ** (s / 4)
    int8 x Q x S        temporal profiles in 127ths, profile by profile
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackDamagedError
from intonaco.template.halves import pack_halves, unpack_halves

ROW_CODES_PER_OCTAVE = 2
STEP_CODES_PER_OCTAVE = 4
MAX_ROW_CODE = 15
MAX_STEP_CODE = 127
PROFILE_PEAK = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Scales and profiles of one unit, as codes.

    Attributes:
        row_codes_N: 0..15.
        step_codes_S: -127..127.
        profiles_QS: in 127ths.
    """

    row_codes_N: NDArray[np.uint8]
    step_codes_S: NDArray[np.int8]
    profiles_QS: NDArray[np.int8]

    @property
    def row_scales(self) -> NDArray[np.float64]:
        return 2.0 ** (-self.row_codes_N.astype(np.float64) / ROW_CODES_PER_OCTAVE)

    @property
    def step_scales(self) -> NDArray[np.float64]:
        return 2.0 ** (self.step_codes_S.astype(np.float64) / STEP_CODES_PER_OCTAVE)

    @property
    def profiles(self) -> NDArray[np.float64]:
        """Return the temporal profiles as numbers, about orthonormal."""
        return self.profiles_QS.astype(np.float64) / PROFILE_PEAK

    def to_bytes(self) -> bytes:
        return (
            pack_halves(self.row_codes_N) + self.step_codes_S.tobytes() + self.profiles_QS.tobytes()
        )


def frame_from_bytes(payload: bytes, *, num_rows: int, num_steps: int, num_profiles: int) -> Frame:
    """Return the frame that `Frame.to_bytes` wrote. Raises PackDamagedError for another length."""
    expected = (num_rows + 1) // 2 + num_steps * (1 + num_profiles)
    if len(payload) != expected:
        raise PackDamagedError(
            f"a frame of {num_rows} rows, {num_steps} steps and {num_profiles} profiles has "
            f"{expected} bytes, got {len(payload)}"
        )
    codes_N, at = unpack_halves(payload, 0, num_rows)
    signed = np.frombuffer(payload[at:], dtype=np.int8)
    return Frame(
        row_codes_N=codes_N,
        step_codes_S=signed[:num_steps],
        profiles_QS=signed[num_steps:].reshape(num_profiles, num_steps),
    )


def row_codes(scales_N: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the codes of positive row scales of at most 1; the smallest ones are cut to the grid."""
    with np.errstate(divide="ignore"):
        codes = np.round(-np.log2(scales_N) * ROW_CODES_PER_OCTAVE)
    return np.clip(codes, 0, MAX_ROW_CODE).astype(np.uint8)


def step_codes(scales_S: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return the codes of positive step scales."""
    codes = np.round(np.log2(scales_S) * STEP_CODES_PER_OCTAVE)
    return np.clip(codes, -MAX_STEP_CODE, MAX_STEP_CODE).astype(np.int8)
