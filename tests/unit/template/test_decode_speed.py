"""The rate of decoding, from made-up numbers and a clock of the test's."""

import numpy as np
import pytest

from intonaco.template.decode_speed import (
    FEWEST_RUNS,
    MOST_RUNS,
    NUM_PLANES,
    UNITS,
    made_up_chunks,
    measure_decoding,
)
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
        self.rate = RATE

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
        self.device.now += len(chunk) / self.device.rate + self.device.interrupted_s
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
    decoder = StateDecoder(
        num_steps=sizes.num_steps,
        num_blocks=1,
        num_rows=sizes.num_rows,
        width=sizes.width,
        decode=decoder_of(way),
    )
    heads, num_planes = decoder.open_heads(UNITS), []
    for chunk in made_up_chunks(sizes):
        table = heads.read_heads(chunk)
        assert table.error is None
        decoder.take(0, 0, chunk, table.rows, 0)
        num_planes.append(table.rows[:, COLUMN_OF_PLANES].sum())
    num_groups = len(num_planes) // NUM_PLANES
    assert num_planes == num_planes[:num_groups] * NUM_PLANES
    assert np.isfinite(decoder.read(0, 0)[0]).all()


def test_all_kinds_of_strands_are_in_it():
    # Basis and eight profiles of components 0, 1, 2-3, 4-7.
    heads = StateDecoder(num_steps=8, num_blocks=1, num_rows=102, width=256).open_heads(UNITS)
    rows = [len(heads.read_heads(chunk).rows) for chunk in made_up_chunks(SIZES[0])]
    assert rows == [9] * 4 * NUM_PLANES


@pytest.mark.parametrize(
    ("run_s", "num_runs"), [(0.001, MOST_RUNS), (0.004, 3), (9.0, FEWEST_RUNS)]
)
def test_a_slow_device_is_measured_fewer_times(run_s, num_runs):
    device = SlowDevice()
    num_bytes = sum(map(len, made_up_chunks(SIZES[2])))
    device.rate = num_bytes / run_s
    measure_decoding(device.decode, SIZES[2], clock=device.clock)
    assert_close(device.now, num_runs * run_s, atol=1e-6, why="sums of times as floats")
