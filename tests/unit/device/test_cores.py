"""Threads that the model gives up while state streams in come back."""

import pytest
import torch

from intonaco.device import cores
from intonaco.device.cores import Cores


@pytest.fixture(autouse=True)
def three_threads_on_three_cores(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(cores, "num_cores", lambda: 3)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_model_leaves_a_core_and_takes_it_back():
    with Cores():
        inside = torch.get_num_threads()
    assert (inside, torch.get_num_threads()) == (2, 3)


@pytest.mark.parametrize("given", [1, 2])
def test_a_model_on_fewer_threads_than_cores_keeps_them(given):
    torch.set_num_threads(given)
    with Cores():
        assert torch.get_num_threads() == given
    assert torch.get_num_threads() == given


def test_on_a_single_core_the_model_keeps_it(monkeypatch):
    monkeypatch.setattr(cores, "num_cores", lambda: 1)
    with Cores():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_leaving_twice_and_taking_twice_change_nothing_more():
    shared = Cores()
    shared.leave_one()
    shared.leave_one()
    assert torch.get_num_threads() == 2
    shared.take_all()
    torch.set_num_threads(1)
    shared.take_all()
    assert torch.get_num_threads() == 1


def test_threads_come_back_when_the_block_fails():
    with pytest.raises(RuntimeError, match="failed"), Cores():
        raise RuntimeError("failed")
    assert torch.get_num_threads() == 3
