"""The live view of a stream: one line for the link, one per step with a mark per shard."""

from types import SimpleNamespace

from intonaco.cli.stream_view import lines
from intonaco.streaming.protocol import Progress
from tests.support.templates import small_packed

MANIFEST = small_packed().manifest


def link(progress: Progress | None) -> SimpleNamespace:
    return SimpleNamespace(manifest=MANIFEST, progress=progress)


def progress(*levels: int | None, trouble: str = "") -> Progress:
    return Progress(
        bytes_per_s=1e6, num_bytes=250_000, levels=levels, bases=(0, 0), trouble=trouble
    )


def record(step: int, group: int, word: str) -> SimpleNamespace:
    return SimpleNamespace(step=step, group=group, word=word, stall_s=0.004)


def test_before_anything_came_every_shard_is_empty():
    assert lines(link(None), None)[1:] == ["step  1        ", "step  2        "]


def test_the_first_line_tells_rate_bytes_stalls_and_trouble():
    source = SimpleNamespace(records=[record(0, 0, "run"), record(0, 1, "run")])
    view = lines(link(progress(None, None, None, None, trouble="cut")), source)
    assert view[0] == "link     8.00 Mbit/s     0.250 MB here   stalls     8 ms   cut"


def test_marks_tell_how_much_came_and_how_shards_ran():
    source = SimpleNamespace(records=[record(0, 0, "run"), record(1, 0, "borrow")])
    most = len(MANIFEST.coefficients[0][0].cuts_from_floor())
    most += len(MANIFEST.bases[0].cuts_from_floor()) - 2
    view = lines(link(progress(most, None, 0, None)), source)
    assert view[1:] == ["step  1  [@]   ", "step  2  [b]   "]
