"""State in memory and in folders: what was written is read, what is missing or damaged is said."""

import pytest
import torch

from intonaco.errors import PackBoundsError, PackDamagedError, TemplateMissingError
from intonaco.families.template_state import StateShape
from intonaco.template.state_store import (
    MemoryState,
    StateFolder,
    StateWriter,
    step_path,
    writer_bytes,
)

SHAPE = StateShape(num_steps=2, num_blocks=3, num_rows=2, width=4)
ROWS = torch.tensor([0, 2])


def unit(step, block):
    """Return distinct keys and values (I, d) of four tokens."""
    key = torch.arange(16.0).reshape(4, 4) + 100 * step + 1000 * block
    return key, -key


def write_all(tap):
    for step in range(SHAPE.num_steps):
        for block in range(SHAPE.num_blocks):
            tap.write(step, block, *unit(step, block))
    return tap.close()


@pytest.fixture(params=["memory", "folder"])
def source(request, tmp_path):
    if request.param == "memory":
        return write_all(MemoryState(shape=SHAPE, rows_N=ROWS))
    return write_all(StateWriter(tmp_path / "state", shape=SHAPE, rows_N=ROWS))


def test_the_chosen_rows_of_every_unit_are_read_back(source):
    for step in range(SHAPE.num_steps):
        for block in range(SHAPE.num_blocks):
            for got, written in zip(source.read(step, block), unit(step, block), strict=True):
                assert torch.equal(got, written[ROWS])


@pytest.mark.parametrize("place", [(2, 0), (0, 3)])
def test_a_unit_that_is_not_there_is_named(source, place):
    with pytest.raises(TemplateMissingError, match=r"step \d, block \d"):
        source.read(*place)


def test_what_is_kept_does_not_change_with_the_runs_memory():
    state = MemoryState(shape=SHAPE, rows_N=ROWS)
    key, value = unit(0, 0)
    state.write(0, 0, key, value)
    key.zero_()

    assert state.read(0, 0)[0].abs().sum() > 0


def test_a_writer_holds_one_step_and_writes_it_when_the_next_begins(tmp_path):
    writer = StateWriter(tmp_path, shape=SHAPE, rows_N=ROWS)
    for block in range(SHAPE.num_blocks):
        writer.write(0, block, *unit(0, block))
        assert not step_path(tmp_path, 0).exists()
    writer.write(1, 0, *unit(1, 0))

    assert step_path(tmp_path, 0).is_file()
    assert not step_path(tmp_path, 1).exists()


def test_the_stated_bound_is_the_size_of_a_steps_units():
    assert writer_bytes(SHAPE, torch.float32) == 2 * 3 * 2 * 4 * 4


def test_a_cut_file_is_damaged(tmp_path):
    write_all(StateWriter(tmp_path, shape=SHAPE, rows_N=ROWS))
    path = step_path(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-8])

    with pytest.raises(PackDamagedError, match="cannot be read"):
        StateFolder(folder=tmp_path, shape=SHAPE).read(1, 0)


def test_a_file_of_another_shape_is_refused(tmp_path):
    write_all(StateWriter(tmp_path, shape=SHAPE, rows_N=ROWS))
    other = StateShape(num_steps=2, num_blocks=3, num_rows=5, width=4)

    with pytest.raises(PackBoundsError, match=r"\(2, 4\) for block 0"):
        StateFolder(folder=tmp_path, shape=other).read(0, 0)
