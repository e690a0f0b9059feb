"""Threads that the model gives up for a while come back."""

import pytest
import torch

from intonaco.cli.cores import leaving_a_core


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_the_model_leaves_a_core_and_takes_it_back():
    with leaving_a_core():
        inside = torch.get_num_threads()
    assert (inside, torch.get_num_threads()) == (2, 3)


@pytest.mark.usefixtures("three_threads")
def test_a_model_on_one_thread_keeps_it():
    torch.set_num_threads(1)
    with leaving_a_core():
        assert torch.get_num_threads() == 1


@pytest.mark.usefixtures("three_threads")
def test_threads_come_back_when_the_block_fails():
    with pytest.raises(RuntimeError, match="failed"), leaving_a_core():
        raise RuntimeError("failed")
    assert torch.get_num_threads() == 3
