"""What the demo decides before it streams: templates, links, and how a stream is told."""

import pytest

from intonaco.cli.demo_catalog import key_of, streamable
from intonaco.cli.demo_plan import DemoPlan
from intonaco.cli.demo_streaming import (
    MOMENTS,
    PAPER_EDIT_S,
    PAPER_ROUND_TRIP_S,
    PAPER_STATE_BYTES,
    emulated_link,
    link_scale,
    the_trace,
)
from intonaco.cli.demo_watch import arrivals, rates
from intonaco.streaming.link import LinkModel
from intonaco.streaming.protocol import Progress
from intonaco.streaming.traces import Trace

EDIT = {"title": "an edit", "seed": 1, "mask_file": "mask.png"}
PLAN = DemoPlan.model_validate(
    {
        "format": 1,
        "pictures": [{"name": "girl", "prompt": "a girl", "seed": 1}],
        "edits": [
            {**EDIT, "name": "first", "template_picture": "girl"},
            {**EDIT, "name": "second", "template_file": "girl.png"},
            {**EDIT, "name": "third", "template_picture": "girl"},
            {**EDIT, "name": "fourth", "template_picture": "girl", "mask_file": "head.png"},
        ],
    }
)


def _progress(*levels: int | None) -> Progress:
    return Progress(bytes_per_s=1.0, num_bytes=1, levels=levels, trouble="")


def test_only_edits_of_drawn_pictures_are_streamed():
    assert [edit.name for edit in streamable(PLAN)] == ["first", "third", "fourth"]


def test_edits_of_one_picture_under_one_mask_share_a_template():
    assert len({key_of(edit) for edit in streamable(PLAN)}) == 2


def test_the_link_is_a_labelled_synthetic_one_times_the_scale():
    _, link = emulated_link(0, scale=0.5, edit_s=1.0)
    assert link.trace.name.startswith("synthetic 5g")
    assert link.trace.mbps == tuple(0.5 * rate for rate in the_trace().mbps)


def test_the_moments_are_what_they_are_called():
    seconds = [second for _, second in MOMENTS]
    good, fading, poor = (the_trace().mbps[second - 1 : second + 1] for second in seconds)
    assert min(good) > 5 * max(poor)
    assert fading[0] > 5 * fading[1]


def test_the_link_changes_halfway_through_an_edit():
    _, link = emulated_link(1, scale=1.0, edit_s=0.5)
    before, after = (link.bytes_between(begin, begin + 0.25) for begin in (0.0, 0.25))
    assert before > 5 * after


def test_the_round_trip_shrinks_with_the_edit_and_never_grows():
    short, long = (
        emulated_link(0, scale=1.0, edit_s=edit_s)[1].round_trip_s
        for edit_s in (PAPER_EDIT_S / 10, 10 * PAPER_EDIT_S)
    )
    assert (short, long) == (pytest.approx(PAPER_ROUND_TRIP_S / 10), PAPER_ROUND_TRIP_S)


def test_a_slow_edit_begins_no_earlier_than_the_trace():
    assert emulated_link(0, scale=1.0, edit_s=100.0)[1].start_s == 0.0


def test_a_model_of_the_papers_size_and_speed_gets_the_link_as_it_is():
    scale = link_scale(round(PAPER_STATE_BYTES), PAPER_EDIT_S)
    # The state is rounded to whole bytes.
    assert scale == pytest.approx(1.0, abs=1e-9)


def test_more_edits_than_moments_begin_anew():
    again, first = (emulated_link(index, scale=1.0, edit_s=1.0) for index in (len(MOMENTS), 0))
    assert again == first


def test_an_arrival_is_noted_when_more_of_a_shard_is_there():
    seen = [
        (0.1, _progress(None, 0)),
        (0.2, _progress(1, 0)),
        (0.3, _progress(1, 0)),
        (0.4, _progress(3, 0)),
    ]
    assert arrivals(seen, 0, num_levels=4) == [(0.2, 0.5), (0.4, 1.0)]


@pytest.mark.parametrize(
    ("start_s", "end_s", "expected"),
    [
        (0.5, 1.0, [(0.0, 1.0), (0.5, 2.0)]),
        (1.0, 0.5, [(0.0, 2.0)]),
        (2.75, 1.0, [(0.0, 4.0), (0.25, 1.0)]),
    ],
)
def test_rates_follow_the_trace_from_where_the_edit_begins(start_s, end_s, expected):
    link = LinkModel(trace=Trace(name="a link", mbps=(1.0, 2.0, 4.0)), start_s=start_s)
    assert rates(link, end_s) == expected
