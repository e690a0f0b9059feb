"""One streamed edit as a drawing: the link's rate above, its shards arriving and running below.

Writes SVG, so that a report needs neither a plotting package nor a second file. Takes plain numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

INK, FAINT, MARK, LINK = "#2b2622", "#b9aea1", "#e84855", "#2f6690"
WIDTH = 960
LEFT, RIGHT, TOP = 92, 24, 34
RATE_HEIGHT, GAP, ROW_HEIGHT = 110, 44, 7
MAX_TICKS = 8
BYTES_PER_MEGABYTE = 1_000_000
WORDS_OF_STARTS = {"borrow": "borrowed from the step before", "dense": "computed densely"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTrack:
    """One shard over an edit; times in seconds since the request.

    Attributes:
        arrivals: (time, share of the shard that is there from then on), shares growing to 1 at most.
        began_at_s: when the model began to run it; None = it never ran with state.
        word: how it started: "run", "borrow", "dense", ...
        is_cut: it ran with what was there while more of it was on its way.
    """

    step: int
    group: int
    arrivals: Sequence[tuple[float, float]]
    began_at_s: float | None
    word: str
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happened on the link during one edit; times in seconds since the request.

    Attributes:
        link: (time, Mbit/s from then on), the first at 0.
        received: (time, bytes received until then), growing.
        end_s: when the picture was there.
    """

    link: Sequence[tuple[float, float]]
    received: Sequence[tuple[float, int]]
    shards: Sequence[ShardTrack]
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Where the drawing's parts lie, in its own units."""

    timeline: Timeline

    @property
    def rows_top(self) -> int:
        return TOP + RATE_HEIGHT + GAP

    @property
    def rows_bottom(self) -> int:
        return self.rows_top + ROW_HEIGHT * len(self.timeline.shards)

    @property
    def height(self) -> int:
        return self.rows_bottom + 40

    @property
    def top_mbps(self) -> float:
        return max((mbps for _, mbps in self.timeline.link), default=0.0) or 1.0

    @property
    def top_bytes(self) -> int:
        return max((num_bytes for _, num_bytes in self.timeline.received), default=0) or 1

    def x(self, at_s: float) -> float:
        end_s = self.timeline.end_s or 1.0
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, at_s / end_s))

    def y(self, share: float) -> float:
        """Return the height of a share of the upper panel."""
        return TOP + RATE_HEIGHT * (1 - share)

    def row(self, index: int) -> float:
        return self.rows_top + ROW_HEIGHT * index


def timeline_svg(timeline: Timeline) -> str:
    """Return an SVG element: rate and received bytes over time; below, a row per shard.

    A row's bar begins with the first usable bytes and darkens as more come; the red mark is where the
    model took the shard. Arrivals are as fine as whoever noted them looked: a mark without a bar was
    taken before the first look that found it.
    """
    frame = _Frame(timeline=timeline)
    parts = [
        *_axis(frame),
        *_rate(frame),
        *_received(frame),
        *_steps(frame),
        *(part for index, _ in enumerate(timeline.shards) for part in _shard(frame, index)),
    ]
    label = "link rate and shards of template state arriving over the time of the edit"
    body = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {frame.height}" role="img" aria-label="{label}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">\n{body}\n</svg>'
    )


def ticks_ms(end_s: float) -> range:
    """Return round times from 0 to `end_s`, at most nine, in whole milliseconds.

    >>> list(ticks_ms(1.3))
    [0, 200, 400, 600, 800, 1000, 1200]
    """
    end_ms = max(1, math.ceil(1000 * end_s))
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if end_ms <= MAX_TICKS * step)
    return range(0, end_ms + 1, step)


def _axis(frame: _Frame) -> list[str]:
    """Vertical lines with the time under them."""
    parts: list[str] = []
    for at_ms in ticks_ms(frame.timeline.end_s):
        x = frame.x(at_ms / 1000)
        parts.append(_line(x, TOP, x, frame.rows_bottom + 4, color="#e3dcd2"))
        parts.append(_text(x, frame.rows_bottom + 18, str(at_ms), anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, frame.rows_bottom + 34, "ms since the request", anchor="middle"))
    return parts


def _rate(frame: _Frame) -> list[str]:
    """The link's rate as steps, filled."""
    link = [*frame.timeline.link, (frame.timeline.end_s, 0.0)]
    areas = [
        f'<rect x="{frame.x(begin):.1f}" y="{frame.y(mbps / frame.top_mbps):.1f}" '
        f'width="{frame.x(end) - frame.x(begin):.1f}" '
        f'height="{RATE_HEIGHT * mbps / frame.top_mbps:.1f}" fill="{LINK}" fill-opacity="0.22"/>'
        for (begin, mbps), (end, _) in pairwise(link)
        if end > begin
    ]
    top = _text(LEFT - 8, TOP + 5, f"{frame.top_mbps:.3g}", anchor="end", color=LINK)
    name = _text(LEFT, TOP - 14, "link, Mbit/s (emulated)", color=LINK)
    zero = _text(LEFT - 8, TOP + RATE_HEIGHT + 4, "0", anchor="end", color=LINK)
    return [*areas, name, top, zero]


def _received(frame: _Frame) -> list[str]:
    """Received bytes as a line, its top labelled."""
    points = " ".join(
        f"{frame.x(at_s):.1f},{frame.y(num_bytes / frame.top_bytes):.1f}"
        for at_s, num_bytes in [(0.0, 0), *frame.timeline.received]
    )
    megabytes = f"received, up to {frame.top_bytes / BYTES_PER_MEGABYTE:.3f} MB"
    return [
        f'<polyline points="{points}" fill="none" stroke="{INK}" stroke-width="1.8"/>',
        _text(LEFT + 190, TOP - 14, megabytes),
    ]


def _steps(frame: _Frame) -> list[str]:
    """A name before the first shard of each step, a thin line above it."""
    parts = [
        _text(
            LEFT,
            frame.rows_top - 12,
            "shards: a bar from the first usable bytes, darker as more come (noted every 100 ms); red, "
            "where the model takes it",
        )
    ]
    for index, shard in enumerate(frame.timeline.shards):
        if index and frame.timeline.shards[index - 1].step == shard.step:
            continue
        y = frame.row(index)
        parts.append(_line(LEFT, y - 1, WIDTH - RIGHT, y - 1, color="#efe9e0"))
        parts.append(_text(LEFT - 8, y + 10, f"step {shard.step + 1}", anchor="end"))
    return parts


def _shard(frame: _Frame, index: int) -> list[str]:
    shard = frame.timeline.shards[index]
    y = frame.row(index)
    ends_s = frame.timeline.end_s if shard.began_at_s is None else shard.began_at_s
    # More of a shard may come after the model took it: basis bytes, which later steps share.
    edges = [arrival for arrival in shard.arrivals if arrival[0] < ends_s] + [(ends_s, 0.0)]
    bars = [
        f'<rect x="{frame.x(begin):.1f}" y="{y:.1f}" '
        f'width="{frame.x(end) - frame.x(begin):.1f}" height="{ROW_HEIGHT - 2}" '
        f'fill="{LINK}" fill-opacity="{0.2 + 0.8 * share:.2f}"/>'
        for (begin, share), (end, _) in pairwise(edges)
    ]
    if shard.began_at_s is None:
        return bars
    x = frame.x(shard.began_at_s)
    color = MARK if shard.word == "run" else INK
    mark = (
        f'<rect x="{x - 1.5:.1f}" y="{y - 0.5:.1f}" width="3" height="{ROW_HEIGHT - 1}" '
        f'fill="{color}"><title>{escape(_story(shard))}</title></rect>'
    )
    return [*bars, mark]


def _story(shard: ShardTrack) -> str:
    how = WORDS_OF_STARTS.get(shard.word, "run with what was ready")
    cut = ", cut at its deadline" if shard.is_cut else ""
    return f"step {shard.step + 1}, block group {shard.group + 1}: {how}{cut}"


def _line(x1: float, y1: float, x2: float, y2: float, *, color: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", color: str = INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'
    )
