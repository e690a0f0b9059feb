"""How many threads the model may use while something beside it has to keep up."""

import contextlib
from collections.abc import Generator


@contextlib.contextmanager
def leaving_a_core() -> Generator[None]:
    """Let the model use one thread less while the block runs, at least one.

    For edits whose state streams in: receiving and decoding need a core. Where the model's threads wait
    for each other on every core, each of them waits for the scheduler too, and an edit takes several
    times as long.
    """
    import torch

    num_threads = torch.get_num_threads()
    torch.set_num_threads(max(1, num_threads - 1))
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
