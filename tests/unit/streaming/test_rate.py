"""The rate estimate: what counts as time, and how soon it believes a change."""

import pytest

from intonaco.errors import StreamSettingsError
from intonaco.streaming.rate import RateEstimate, RateSettings
from tests.support.comparison import assert_close


def fed(estimate, bytes_per_s, seconds, step_s=0.02):
    for _ in range(round(seconds / step_s)):
        estimate = estimate.add(int(bytes_per_s * step_s), step_s)
    return estimate


def test_before_the_first_sample_the_given_rate_counts():
    assert RateEstimate(settings=RateSettings(start_bytes_per_s=123.0)).bytes_per_s == 123.0


def test_the_first_sample_is_taken_as_it_is():
    estimate = RateEstimate(settings=RateSettings()).add(1_000_000, 0.1)
    assert estimate.bytes_per_s == 10_000_000


def test_a_slow_first_sample_counts_no_more_than_any_other():
    slow_once = RateEstimate(settings=RateSettings()).add(40_000, 0.02)
    estimate = fed(slow_once, 10_000_000, 0.18)
    assert_close(
        estimate.slow, 0.1 * 2e6 + 0.9 * 10e6, atol=1.0, why="a plain average, sums of floats"
    )


def test_silence_before_the_first_byte_is_no_measurement():
    settings = RateSettings(start_bytes_per_s=1e6)
    assert RateEstimate(settings=settings).add(0, 0.05).bytes_per_s > 0.7e6


def test_a_steady_rate_is_found():
    estimate = fed(RateEstimate(settings=RateSettings()), 5_000_000, 2.0)
    assert_close(estimate.bytes_per_s, 5e6, atol=1.0, why="equal samples: rounding of floats only")


def test_a_collapse_is_believed_sooner_than_a_recovery():
    steady = fed(RateEstimate(settings=RateSettings()), 10_000_000, 2.0)
    fallen = fed(steady, 1_000_000, 0.3)
    risen = fed(fed(steady, 1_000_000, 5.0), 10_000_000, 0.3)
    assert fallen.bytes_per_s < 0.25 * steady.bytes_per_s
    assert risen.bytes_per_s < 0.6 * steady.bytes_per_s


def test_silence_while_bytes_are_due_lowers_the_rate():
    steady = fed(RateEstimate(settings=RateSettings()), 10_000_000, 2.0)
    silent = steady
    for _ in range(10):
        silent = silent.add(0, 0.05)
    assert silent.bytes_per_s < 0.1 * steady.bytes_per_s


def test_a_burst_too_short_to_measure_waits_for_more_time():
    estimate = RateEstimate(settings=RateSettings()).add(1_000_000, 0.001)
    assert estimate.fast is None
    assert estimate.pending_bytes == 1_000_000


def test_on_a_slow_link_a_sample_closes_by_time_whatever_it_holds():
    estimate = fed(RateEstimate(settings=RateSettings()), 10_000, 0.2)
    assert_close(estimate.bytes_per_s, 1e4, atol=1.0, why="equal samples: rounding of floats only")


@pytest.mark.parametrize(
    "wrong", [{"fast_s": 0.0}, {"fast_s": 2.0}, {"start_bytes_per_s": 0.0}, {"sample_s": 0.0}]
)
def test_settings_that_make_no_average_are_refused(wrong):
    with pytest.raises(StreamSettingsError, match="must"):
        RateSettings(**wrong)
