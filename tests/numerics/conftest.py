"""What several files of numerical tests use."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def each_number_of_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test on one thread and on two: how a loop is cut must not show.

    Where several tests run at once each has one thread otherwise, see the conftest above.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)
