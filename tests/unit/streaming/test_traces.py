"""Traces: exact arithmetic, strict files, and synthetic ones that keep their figures."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import TraceError
from intonaco.streaming.traces import (
    SYNTHETIC_LINKS,
    LinkFigures,
    Trace,
    measured_figures,
    read_trace,
    synthesize_trace,
)
from tests.support.comparison import assert_close

rates = st.lists(st.floats(0, 1000), min_size=1, max_size=20).filter(lambda each: sum(each) > 0.1)


def trace(*mbps):
    return Trace(name="given", mbps=tuple(mbps))


def test_bytes_are_the_rate_times_the_time_and_the_trace_repeats():
    given_trace = trace(8.0, 16.0)
    assert given_trace.bytes_until(1.0) == 1_000_000
    assert given_trace.bytes_until(1.5) == 2_000_000
    assert given_trace.bytes_until(3.0) == 4_000_000


@given(rates, st.floats(0.001, 100))
def test_the_time_of_bytes_undoes_the_bytes_of_a_time(mbps, at_s):
    given_trace = trace(*mbps)
    carried = given_trace.bytes_until(at_s)
    back = given_trace.bytes_until(given_trace.time_of(carried))
    assert_close(back, carried, atol=1e-6 * carried + 1e-3, why="sums of floats, 8 bytes each")


def test_nothing_arrives_during_an_outage():
    given_trace = trace(8.0, 0.0, 0.0, 8.0)
    assert given_trace.time_of(1_000_000) == 1.0
    assert given_trace.time_of(1_000_001) > 3.0


@pytest.mark.parametrize("mbps", [(), (0.0, 0.0), (1.0, -1.0), (float("nan"),), (float("inf"),)])
def test_rates_that_no_link_has_are_refused(mbps):
    with pytest.raises(TraceError, match="must hold"):
        trace(*mbps)


def test_a_scaled_trace_says_so():
    assert trace(2.0).scaled(0.5) == Trace(name="given x 0.5", mbps=(1.0,))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("time,rate\n0,1\n", "must begin with time_s,throughput_mbps .* such as 0,12.5, got 'time"),
        ("", "such as 0,12.5, got ''"),
        ("time_s,throughput_mbps\n1,5\n", "row 1 must be 0,RATE"),
        ("time_s,throughput_mbps\n0,5\n2,5\n", "row 2 must be 1,RATE"),
        ("time_s,throughput_mbps\n0,fast\n", "write numbers"),
        ("time_s,throughput_mbps\n", "must hold 1"),
    ],
)
def test_a_damaged_trace_file_is_refused(tmp_path, content, message):
    path = tmp_path / "link.csv"
    path.write_text(content)
    with pytest.raises(TraceError, match=message):
        read_trace(path)


def test_a_missing_trace_file_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"none\.csv"):
        read_trace(tmp_path / "none.csv")


def test_a_trace_file_is_read(tmp_path):
    path = tmp_path / "link.csv"
    path.write_text("time_s,throughput_mbps\n0,5.5\n1,0\n")
    assert read_trace(path) == Trace(name="link", mbps=(5.5, 0.0))


@pytest.mark.parametrize("kind", sorted(SYNTHETIC_LINKS))
@pytest.mark.parametrize("seed", [1, 2])
def test_a_synthetic_trace_keeps_its_median_p10_p90_and_outages(kind, seed):
    figures = SYNTHETIC_LINKS[kind]
    mbps = synthesize_trace(figures, num_seconds=600, seed=seed, name=kind).mbps
    measured = measured_figures(mbps)
    for name in ("median_mbps", "p10_mbps", "p90_mbps"):
        expected = getattr(figures, name)
        assert_close(
            measured[name] / expected, 1.0, atol=0.02, why="600 seconds: half a rank is below 2 %"
        )
    assert_close(measured["outage_share"], figures.outage_share, atol=1 / 600, why="whole seconds")
    assert max(mbps) <= figures.peak_mbps


def test_a_synthetic_link_with_memory_changes_slowly_and_one_without_does_not():
    figures = {"median_mbps": 50.0, "p10_mbps": 20.0, "p90_mbps": 80.0, "peak_mbps": 99.0}
    memory = [
        measured_figures(
            synthesize_trace(
                LinkFigures(memory=wanted, **figures), num_seconds=3000, seed=3, name="x"
            ).mbps
        )["memory"]
        for wanted in (0.0, 0.9)
    ]
    assert_close(memory, [0.0, 0.9], atol=0.06, why="three standard errors of 3,000 pairs")


def test_fades_come_in_spells():
    figures = LinkFigures(
        median_mbps=50, p10_mbps=20, p90_mbps=80, peak_mbps=99, memory=0.0, fade_share=0.1, fade_s=8
    )
    mbps = synthesize_trace(figures, num_seconds=2000, seed=4, name="x").mbps
    slow = [rate < 20 for rate in mbps]
    num_spells = sum(now and not before for before, now in pairwise(slow))
    # Independent seconds would begin about 180 spells in 200 slow seconds.
    assert num_spells < 120


def test_the_same_seed_gives_the_same_trace_and_its_name_says_synthetic():
    one, two = (
        synthesize_trace(SYNTHETIC_LINKS["5g"], num_seconds=100, seed=5, name="5g")
        for _ in range(2)
    )
    assert one == two
    assert one.name == "synthetic 5g"


@pytest.mark.parametrize(
    "wrong",
    [
        {"p10_mbps": 60.0},
        {"peak_mbps": 70.0},
        {"memory": 1.0},
        {"fade_share": 0.6},
        {"outage_share": 0.1},
        {"outage_s": 0.5},
    ],
)
def test_figures_that_no_link_can_have_are_refused(wrong):
    figures = {"median_mbps": 50.0, "p10_mbps": 20.0, "p90_mbps": 80.0, "peak_mbps": 99.0}
    with pytest.raises(TraceError, match=r"needs|must lie"):
        LinkFigures(**{**figures, **wrong})


def test_a_trace_too_short_for_its_figures_is_refused():
    with pytest.raises(TraceError, match="at least 60"):
        synthesize_trace(SYNTHETIC_LINKS["lte"], num_seconds=10, seed=0, name="lte")
