"""Notes what happens on the link while the demo's edits run, for the drawing in its report."""

import contextlib
import threading
import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from intonaco.device.link import TemplateLink
    from intonaco.device.records import StreamRecord
    from intonaco.device.source import StreamedSource
    from intonaco.quality.demo_plot import ShardTrack, Timeline
    from intonaco.streaming.link import LinkModel
    from intonaco.streaming.protocol import Progress

LOOK_S = 0.02
JOIN_S = 5.0


class StreamRecorder:
    """Looks at a link's progress again and again during one edit; see `recording`."""

    def __init__(self, link: "TemplateLink") -> None:
        self._link = link
        self._began_at = time.monotonic()
        self._source: StreamedSource | None = None
        self._seen: list[tuple[float, Progress]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="intonaco-demo-watch", daemon=True)

    def watch(self, source: "StreamedSource") -> None:
        """Take note of the edit that begins now, with the link's own time."""
        self._began_at = time.monotonic()
        self._source = source
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=JOIN_S)

    def timeline(self, stream: "StreamRecord", model: "LinkModel") -> "Timeline":
        """Return what was seen of the edit that `stream` tells of; `model` is its emulated link."""
        from intonaco.quality.demo_plot import Timeline

        received = [(at_s, progress.num_bytes) for at_s, progress in self._seen]
        return Timeline(
            link=rates(model, stream.seconds),
            received=[*received, (stream.seconds, stream.received_bytes)],
            shards=self._shards(stream),
            end_s=stream.seconds,
        )

    def _look(self) -> None:
        last: Progress | None = None
        while not self._stop.wait(LOOK_S):
            progress = self._link.progress
            if progress is not None and progress is not last:
                self._seen.append((time.monotonic() - self._began_at, progress))
                last = progress

    def _shards(self, stream: "StreamRecord") -> "tuple[ShardTrack, ...]":
        from intonaco.quality.demo_plot import ShardTrack
        from intonaco.streaming.pack_table import table_of

        began_at = {} if self._source is None else self._source.times.begun_at
        words = {(shard.step, shard.group): shard for shard in stream.shards}
        tracks: list[ShardTrack] = []
        for index, shard in enumerate(table_of(self._link.manifest).shards):
            record = words.get((shard.step, shard.group))
            at = began_at.get(index)
            tracks.append(
                ShardTrack(
                    step=shard.step,
                    group=shard.group,
                    arrivals=arrivals(self._seen, index, num_levels=len(shard.levels)),
                    began_at_s=None if at is None else at - self._began_at,
                    word="dense" if record is None else record.word,
                    is_cut=record is not None and record.is_cut,
                )
            )
        return tuple(tracks)


@contextlib.contextmanager
def recording(link: "TemplateLink") -> Generator[StreamRecorder]:
    """Yield a recorder of one edit over `link`; its `watch` is for `TemplateSession.edit`."""
    recorder = StreamRecorder(link)
    try:
        yield recorder
    finally:
        recorder.close()


def arrivals(
    seen: "Sequence[tuple[float, Progress]]", shard: int, *, num_levels: int
) -> list[tuple[float, float]]:
    """Return when more of `shard` was first seen, and its share of levels from then on."""
    found: list[tuple[float, float]] = []
    for at_s, progress in seen:
        level = progress.levels[shard]
        if level is None:
            continue
        share = min(1.0, (level + 1) / num_levels)
        if not found or share > found[-1][1]:
            found.append((at_s, share))
    return found


def rates(model: "LinkModel", end_s: float) -> list[tuple[float, float]]:
    """Return the link's rate over an edit: (time, Mbit/s from then on)."""
    mbps = model.trace.mbps
    first = int(model.start_s)
    num_seconds = int(model.start_s + end_s) - first + 1
    return [
        (max(0.0, second - model.start_s), mbps[second % len(mbps)])
        for second in range(first, first + num_seconds)
    ]
