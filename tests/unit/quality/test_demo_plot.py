"""The drawing of a streamed edit: what stands in it, and where."""

from xml.etree import ElementTree

import pytest

from intonaco.quality.demo_plot import MARK, ShardTrack, Timeline, ticks_ms, timeline_svg

EARLY = ShardTrack(
    step=0,
    group=0,
    arrivals=[(0.1, 0.5), (0.2, 0.75), (0.6, 1.0)],
    began_at_s=0.4,
    word="run",
    is_cut=True,
)
DENSE = ShardTrack(step=1, group=0, arrivals=[], began_at_s=None, word="dense", is_cut=False)
TIMELINE = Timeline(
    link=[(0.0, 8.0), (0.5, 2.0)],
    received=[(0.1, 1000), (0.9, 2_500_000)],
    shards=[EARLY, DENSE],
    end_s=1.0,
)


def _parts(timeline: Timeline, tag: str) -> list[ElementTree.Element]:
    return [
        part for part in ElementTree.fromstring(timeline_svg(timeline)).iter() if part.tag == tag
    ]


def _texts(timeline: Timeline) -> list[str]:
    return ["".join(part.itertext()) for part in _parts(timeline, "text")]


def test_the_drawing_is_well_formed_and_says_what_it_shows():
    root = ElementTree.fromstring(timeline_svg(TIMELINE))
    assert root.get("role") == "img"
    assert root.get("aria-label")


def test_the_highest_rate_and_the_received_bytes_are_labelled():
    assert "8" in _texts(TIMELINE)
    assert "received, up to 2.500 MB" in _texts(TIMELINE)


def test_every_step_is_named_once():
    assert [text for text in _texts(TIMELINE) if text.startswith("step ")] == ["step 1", "step 2"]


def test_only_a_shard_that_ran_with_state_is_marked():
    marks = [part for part in _parts(TIMELINE, "rect") if part.get("fill") == MARK]
    assert len(marks) == 1
    (title,) = marks[0]
    assert title.text == "step 1, block group 1: run with what was ready, cut at its deadline"


def test_bars_of_a_shard_end_where_the_model_took_it_also_if_more_came_later():
    bars = [part for part in _parts(TIMELINE, "rect") if part.get("height") == "5"]
    (mark,) = [part for part in _parts(TIMELINE, "rect") if part.get("fill") == MARK]
    ends = float(bars[-1].get("x")) + float(bars[-1].get("width"))
    # Coordinates are written with one decimal; the mark is three units wide.
    assert abs(ends - (float(mark.get("x")) + 1.5)) < 0.2


def test_an_edit_without_any_bytes_is_drawn_too():
    nothing = Timeline(link=[(0.0, 0.0)], received=[], shards=[DENSE], end_s=0.5)
    assert "received, up to 0.000 MB" in _texts(nothing)


@pytest.mark.parametrize(
    ("end_s", "expected"),
    [
        (1.3, [0, 200, 400, 600, 800, 1000, 1200]),
        (0.004, [0, 1, 2, 3, 4]),
        (0.0, [0, 1]),
        (40.0, [0, 5000, 10000, 15000, 20000, 25000, 30000, 35000, 40000]),
    ],
)
def test_times_under_the_drawing_are_round_ones(end_s, expected):
    assert list(ticks_ms(end_s)) == expected
