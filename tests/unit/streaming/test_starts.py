"""What the device is told of a shard's start, beside the controller's own decision."""

from types import SimpleNamespace

import pytest

from intonaco.streaming.late import GiveUp, GoDense, Run
from intonaco.streaming.requests import FileRange
from intonaco.streaming.starts import answer, start_without_link
from intonaco.streaming.stream_files import StreamFiles
from tests.support.streaming import NUM_GROUPS, NUM_STEPS, klein_plan

SHARD = 7
NEXT_STEP = NUM_GROUPS


def file(name):
    return SimpleNamespace(record=SimpleNamespace(name=name), num_verified_bytes=0)


def files_without_a_byte():
    return StreamFiles(
        folder="",
        bases=tuple(file(f"basis-{group}") for group in range(NUM_GROUPS)),
        coefficients=tuple(
            tuple(file(f"{step}-{group}") for group in range(NUM_GROUPS))
            for step in range(NUM_STEPS)
        ),
    )


@pytest.mark.parametrize("is_below_floor", [False, True])
def test_a_shard_below_its_floor_is_cut_even_where_nothing_was_asked_for_it(is_below_floor):
    start = Run(level=0, is_below_floor=is_below_floor)
    told = answer(SHARD, start, table=klein_plan().table, files=files_without_a_byte())
    assert told.is_cut == is_below_floor


def test_a_shard_is_cut_while_something_that_was_asked_for_it_is_not_here():
    files, start = files_without_a_byte(), Run(level=0)
    rows = klein_plan().table.shards[SHARD]
    part = FileRange(part="coefficients", step=rows.step, group=rows.group, start=0, stop=10)
    files.request(part, shard=SHARD)
    assert answer(SHARD, start, table=klein_plan().table, files=files).is_cut
    files.of(part).num_verified_bytes = 10
    told = answer(SHARD, start, table=klein_plan().table, files=files)
    assert (told.is_cut, told.coefficient_bytes) == (False, 10)


@pytest.mark.parametrize(
    ("shard", "with_dense", "without_dense"),
    [
        (0, GoDense(), GiveUp()),
        (1, GoDense(), GiveUp()),
        (NEXT_STEP, GoDense(), None),
        (NEXT_STEP + 1, None, None),
    ],
)
def test_without_a_link_a_dense_run_begins_with_a_step_or_in_the_first(
    shard, with_dense, without_dense
):
    assert start_without_link(klein_plan(), shard) == with_dense
    assert start_without_link(klein_plan(dense_step_s=None), shard) == without_dense
