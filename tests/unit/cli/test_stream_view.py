"""The live view of a stream: one line for the link, one per step with a mark per shard."""

from types import SimpleNamespace

from intonaco.cli.stream_view import lines
from intonaco.streaming.protocol import Progress
from tests.support.templates import small_packed

MANIFEST = small_packed().manifest


def link(progress: Progress | None) -> SimpleNamespace:
    return SimpleNamespace(manifest=MANIFEST, progress=progress)


def progress(*levels: int | None, trouble: str = "") -> Progress:
    return Progress(bytes_per_s=1e6, num_bytes=250_000, levels=levels, trouble=trouble)


def record(step: int, group: int, word: str) -> SimpleNamespace:
    return SimpleNamespace(step=step, group=group, word=word, stall_s=0.004)


def test_before_anything_came_every_shard_is_empty():
    shown = lines(link(None), None)
    assert [line.split() for line in shown[2:-1]] == [["step", "1"], ["step", "2"]]


def test_the_first_line_tells_rate_bytes_and_stalls_and_the_last_one_trouble():
    source = SimpleNamespace(records=[record(0, 0, "run"), record(0, 1, "run")])
    view = lines(link(progress(None, None, None, None, trouble="cut")), source)
    assert view[0] == "link     8.00 Mbit/s     0.250 MB here   stalls     8 ms"
    assert view[-1] == "trouble: cut"


def test_marks_tell_how_much_came_and_how_shards_ran():
    source = SimpleNamespace(records=[record(0, 0, "run"), record(1, 0, "borrow")])
    most = len(MANIFEST.coefficients[0][0].cuts_from_floor())
    most += len(MANIFEST.bases[0].cuts_from_floor()) - 2
    view = lines(link(progress(most, None, 0, None)), source)
    assert view[2:-1] == ["step   1   [@]       ", "step   2   [b]       "]


def test_marks_stand_below_the_blocks_that_they_are_of():
    source = SimpleNamespace(records=[record(0, 0, "run"), record(0, 1, "run")])
    blocks, step = lines(link(progress(None, None, None, None)), source)[1:3]
    assert blocks.split()[1:] == ["1-2", "3-5"]
    places = [index for index, mark in enumerate(step) if mark == "["]
    assert [blocks[place + 1] for place in places] == ["-", "-"]


def test_where_there_is_no_room_for_all_steps_the_running_one_is_shown():
    sizes = SimpleNamespace(num_steps=50, block_groups=((0,),))
    many = SimpleNamespace(
        manifest=SimpleNamespace(
            sizes=sizes, bases=MANIFEST.bases, coefficients=[MANIFEST.coefficients[0]] * 50
        ),
        progress=progress(*[None] * 50),
    )
    source = SimpleNamespace(records=[record(step, 0, "run") for step in range(41)])
    shown = lines(many, source, 12)
    steps = [line.split()[1] for line in shown if line.startswith("step")]
    assert steps == ["37", "38", "39", "40", "41", "42", "43", "44"]
    assert len(shown) <= 12
