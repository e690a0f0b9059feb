"""The rate of decoding, from made-up numbers and a clock of the test's."""

import numpy as np
import pytest

from intonaco.template.decode_speed import NUM_PLANES, UNITS, made_up_chunk, measure_decoding
from intonaco.template.decoder import StateDecoder
from intonaco.template.increments import NUM_PLANES as COLUMN_OF_PLANES
from intonaco.template.plain_decoder import PlainDecoder
from intonaco.template.unit_numbers import UnitSizes
from tests.support.comparison import assert_close
from tests.support.plane_decoders import WAYS, decoder_of

SIZES = [
    UnitSizes(num_steps=8, num_rows=102, width=256),
    UnitSizes(num_steps=4, num_rows=1178, width=3072),
    UnitSizes(num_steps=1, num_rows=2, width=2),
]
RATE = 20_000.0


class SlowDevice:
    """Decodes at a rate, by its own clock; the first run is interrupted."""

    def __init__(self, interrupted_s: float = 0.0) -> None:
        self.now = 0.0
        self.interrupted_s = interrupted_s

    def clock(self) -> float:
        return self.now

    def decode(self, sizes: UnitSizes) -> "SlowDecoder":
        return SlowDecoder(sizes, self)


class SlowDecoder(PlainDecoder):
    def __init__(self, sizes: UnitSizes, device: SlowDevice) -> None:
        super().__init__(sizes)
        object.__setattr__(self, "device", device)

    def take(self, unit, chunk, rows, file_unit) -> None:
        super().take(unit, chunk, rows, file_unit)
        self.device.now += len(chunk) / RATE + self.device.interrupted_s
        self.device.interrupted_s = 0.0


@pytest.mark.parametrize("sizes", SIZES)
def test_the_rate_is_that_of_the_device(sizes):
    device = SlowDevice()
    measured = measure_decoding(device.decode, sizes, clock=device.clock)
    assert_close(measured, RATE, atol=1e-6 * RATE, why="sums of times as floats")


def test_a_run_that_was_interrupted_does_not_count():
    device = SlowDevice(interrupted_s=9.0)
    measured = measure_decoding(device.decode, SIZES[0], clock=device.clock)
    assert_close(measured, RATE, atol=1e-6 * RATE, why="sums of times as floats")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", SIZES)
def test_made_up_numbers_are_a_unit_that_every_way_reads(sizes, way):
    chunk = made_up_chunk(sizes)
    decoder = StateDecoder(
        num_steps=sizes.num_steps,
        num_blocks=1,
        num_rows=sizes.num_rows,
        width=sizes.width,
        decode=decoder_of(way),
    )
    table = decoder.open_heads(UNITS).read_heads(chunk)
    decoder.take(0, 0, chunk, table.rows, 0)
    assert table.error is None
    assert table.rows[:, COLUMN_OF_PLANES].sum() % NUM_PLANES == 0
    assert np.isfinite(decoder.read(0, 0)[0]).all()


def test_all_kinds_of_strands_are_in_it():
    # Basis and eight profiles of components 0, 1, 2-3, 4-7, 8-15, plane by plane.
    table = StateDecoder(num_steps=8, num_blocks=1, num_rows=102, width=256).open_heads(UNITS)
    rows = table.read_heads(made_up_chunk(SIZES[0])).rows
    assert len(rows) == 5 * 9 * NUM_PLANES
