"""Drives a template's link as a device does, without a model."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from intonaco.device.link import LinkSettings, TemplateLink
from intonaco.streaming.protocol import Begin, EmulatedLink, Started, Summary
from intonaco.streaming.settings import StreamSettings

# The files of the small template are far smaller than a slice that is worth a request elsewhere.
SETTINGS = StreamSettings(smallest_slice_bytes=64)
FAST = EmulatedLink(mbps=(80.0,), round_trip_s=0.01)


@dataclass(slots=True)
class Driven:
    """What an edit that ran no model saw: per shard, how it started and the bytes it could read."""

    starts: list[Started] = field(default_factory=list[Started])
    coefficients: list[bytes] = field(default_factory=list[bytes])
    bases: list[bytes] = field(default_factory=list[bytes])
    summary: Summary | None = None

    @property
    def words(self) -> list[str]:
        return [start.word for start in self.starts]


def drive(
    link: TemplateLink,
    *,
    run_s: float = 0.05,
    dense_step_s: float | None = 60.0,
    encode_s: float = 0.05,
    settings: StreamSettings | None = None,
    until: int | None = None,
) -> Driven:
    """Run one edit in which every shard takes `run_s`; ends early where a step must run dense."""
    manifest = link.manifest
    num_groups = len(manifest.sizes.block_groups)
    num_shards = manifest.sizes.num_steps * num_groups
    settings = settings or SETTINGS
    link.begin(
        Begin(
            run_s=(run_s,) * num_shards,
            reconstruct_s=(0.001,) * num_shards,
            dense_step_s=dense_step_s,
            start_at=time.monotonic() + encode_s,
            settings=settings,
        )
    )
    driven = Driven()
    pause = threading.Event()
    pause.wait(encode_s)
    for shard in range(num_shards if until is None else until):
        step, group = divmod(shard, num_groups)
        start = link.start(shard, within_s=settings.late.give_up_s)
        driven.starts.append(start)
        records = (manifest.coefficients[step][group], manifest.bases[group])
        driven.coefficients.append(link.read_file(records[0])[: start.coefficient_bytes])
        driven.bases.append(link.read_file(records[1])[: start.basis_bytes])
        if start.word in {"dense", "give-up"}:
            break
        link.begun(shard, has_borrowed=start.word == "borrow")
        # Stands for the model at work; nothing is waited for.
        pause.wait(run_s)
        link.ended()
    link.stop()
    driven.summary = link.summary()
    return driven


def fill(link: TemplateLink) -> Driven:
    """Run edits until one finds all that it can use on the device; return that one."""
    for _ in range(20):
        driven = drive(link, run_s=0.1, encode_s=0.3)
        if driven.summary is not None and driven.summary.num_bytes == 0:
            return driven
    raise AssertionError("20 edits, and the last one still fetched something")


@contextlib.contextmanager
def open_link(url: str, **settings: object) -> Iterator[TemplateLink]:
    with TemplateLink(url, LinkSettings(**settings)) as link:  # type: ignore[arg-type]
        yield link
