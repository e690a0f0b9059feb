"""What may be fetched: levels, what they cost, and the quality that all shards share."""

from itertools import pairwise

import pytest

from intonaco.errors import StreamSettingsError
from intonaco.streaming.tables import Level, ShardLevels, ShardTable


def shard(*levels, step=0, group=0, floor=0):
    return ShardLevels(
        step=step,
        group=group,
        floor=floor,
        levels=tuple(
            Level(coefficient_bytes=own, basis_bytes=shared, error=error)
            for own, shared, error in levels
        ),
    )


THREE = ((100, 300, 9.0), (200, 300, 4.0), (400, 600, 1.0))


def test_a_basis_that_is_there_costs_nothing_again():
    rows = shard(*THREE)
    assert rows.cost_bytes(2, coefficient_bytes=0, basis_bytes=0) == 1000
    assert rows.cost_bytes(2, coefficient_bytes=0, basis_bytes=600) == 400


@pytest.mark.parametrize(("budget", "level"), [(0, 0), (399, 0), (500, 1), (999, 1), (1000, 2)])
def test_the_highest_level_within_a_budget_is_taken_and_the_floor_when_none_fits(budget, level):
    assert shard(*THREE).highest_within(budget, coefficient_bytes=0, basis_bytes=0) == level


def test_a_level_is_reached_when_both_files_reach_it():
    rows = shard(*THREE)
    assert rows.level_of(coefficient_bytes=400, basis_bytes=599) == 1
    assert rows.level_of(coefficient_bytes=400, basis_bytes=600) == 2
    assert rows.level_of(coefficient_bytes=99, basis_bytes=600) is None


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((), "needs at least one level"),
        (((200, 0, 2.0), (100, 0, 1.0)), "must grow in bytes"),
        (((100, 0, 2.0), (100, 0, 1.0)), "must grow in bytes"),
        (((100, 0, 1.0), (200, 0, 2.0)), "must not grow in error"),
    ],
)
def test_levels_that_are_out_of_order_are_refused(levels, message):
    with pytest.raises(StreamSettingsError, match=message):
        shard(*levels)


@pytest.mark.parametrize("floor", [-1, 3])
def test_a_floor_that_is_none_of_the_levels_is_refused(floor):
    with pytest.raises(StreamSettingsError, match="must be one of its levels, 0 to 2"):
        shard(*THREE, floor=floor)


def test_levels_below_the_floor_are_reached_but_never_chosen():
    rows = shard(*THREE, floor=1)
    assert rows.level_of(coefficient_bytes=100, basis_bytes=300) == 0
    assert rows.highest_within(0, coefficient_bytes=0, basis_bytes=0) == 1
    table = ShardTable(shards=(rows,))
    assert table.grades[0] == (1,)
    assert table.floor_bytes == 500


def test_shards_that_are_not_in_the_order_of_need_are_refused():
    second = shard(*THREE, step=0, group=1)
    with pytest.raises(StreamSettingsError, match="step by step"):
        ShardTable(shards=(second, shard(*THREE)))


def test_an_edit_counts_each_basis_once():
    table = ShardTable(shards=(shard(*THREE, step=0), shard(*THREE, step=1)))
    assert table.floor_bytes == 100 + 100 + 300
    assert table.full_bytes == 400 + 400 + 600
    assert table.bytes_at([0, 2]) == 100 + 400 + 600


def test_an_edit_needs_one_level_per_shard():
    with pytest.raises(StreamSettingsError, match="one level per shard, 1, got 2"):
        ShardTable(shards=(shard(*THREE),)).bytes_at([0, 0])


def test_a_raised_floor_drops_the_levels_below_it_and_nothing_else():
    table = ShardTable(shards=(shard(*THREE, step=0), shard(*THREE, step=1)))
    raised = table.with_floor(1000, first_steps_bytes=1000)
    assert raised.floor_bytes <= 1000
    assert raised.floor_bytes > table.floor_bytes
    assert raised.full_bytes == table.full_bytes
    assert table.with_floor(0, first_steps_bytes=0) == table


def test_the_first_quarter_of_the_steps_has_the_lower_floor_and_later_steps_keep_theirs():
    table = ShardTable(shards=tuple(shard(*THREE, step=step) for step in range(4)))
    raised = table.with_floor(10_000, first_steps_bytes=0)
    assert [rows.floor for rows in raised.shards] == [0, 2, 2, 2]
    assert raised.floor_bytes == 100 + 3 * 400 + 600
    assert all(rows.levels == table.shards[0].levels for rows in raised.shards)


def test_where_an_edit_has_too_few_steps_none_has_the_lower_floor():
    table = ShardTable(shards=tuple(shard(*THREE, step=step) for step in range(3)))
    raised = table.with_floor(10_000, first_steps_bytes=0)
    assert [rows.floor for rows in raised.shards] == [2, 2, 2]


def test_no_floor_is_above_the_last_level():
    table = ShardTable(shards=(shard(*THREE),))
    raised = table.with_floor(1e9, first_steps_bytes=1e9)
    assert raised.shards[0].levels == (table.shards[0].full,)


def test_grades_rise_from_every_floor_to_every_full_file():
    table = ShardTable(shards=(shard(*THREE, step=0), shard(*THREE, step=1)))
    assert table.grades[0] == (0, 0)
    assert table.grades[-1] == (2, 2)
    assert all(
        low <= high
        for lower, upper in pairwise(table.grades)
        for low, high in zip(lower, upper, strict=True)
    )
