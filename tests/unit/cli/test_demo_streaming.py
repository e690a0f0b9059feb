"""What the demo decides before it streams: templates, links, and how a stream is told."""

import pytest

from intonaco.cli.demo_catalog import key_of, streamable
from intonaco.cli.demo_plan import DemoPlan
from intonaco.cli.demo_streaming import MOMENTS, emulated_link, the_trace
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
    return Progress(bytes_per_s=1.0, num_bytes=1, levels=levels, bases=(), trouble="")


def test_only_edits_of_drawn_pictures_are_streamed():
    assert [edit.name for edit in streamable(PLAN)] == ["first", "third", "fourth"]


def test_edits_of_one_picture_under_one_mask_share_a_template():
    assert len({key_of(edit) for edit in streamable(PLAN)}) == 2


def test_the_link_is_a_labelled_synthetic_one_times_the_scale():
    _, link = emulated_link(0, 0.5)
    assert link.trace.name.startswith("synthetic 5g")
    assert link.trace.mbps == tuple(0.5 * rate for rate in the_trace().mbps)


def test_the_moments_are_what_they_are_called():
    seconds = [int(start_s) for _, start_s in MOMENTS]
    good, fading, poor = (the_trace().mbps[second : second + 3] for second in seconds)
    assert min(good) > 3 * max(poor)
    assert fading[0] > 5 * fading[1]


def test_more_edits_than_moments_begin_anew():
    assert emulated_link(len(MOMENTS), 1.0) == emulated_link(0, 1.0)


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
