"""How many of the machine's cores the model computes on while its state streams in, and when not."""

import torch

from intonaco.backends.machine import num_cores


class Cores:
    """The threads of the model: all that it was given, or as many as leave a core to the stream.

    Receiving and decoding need a core. Where the model's threads wait for each other on every core, each
    of them waits for the scheduler too, and an edit takes several times as long. Once nothing streams any
    more, the model has all its threads again. A model that was given fewer threads than there are cores
    keeps them all along. To be called by the thread that runs the model.
    """

    def __init__(self) -> None:
        self._given: int | None = None

    def __enter__(self) -> "Cores":
        self.leave_one()
        return self

    def __exit__(self, *_: object) -> None:
        self.take_all()

    def leave_one(self) -> None:
        """Let the model use one core less than there are, at least one."""
        if self._given is None:
            self._given = torch.get_num_threads()
            torch.set_num_threads(max(1, min(self._given, num_cores() - 1)))

    def take_all(self) -> None:
        """Give the model back what it had; nothing where nothing was taken."""
        if self._given is not None:
            torch.set_num_threads(self._given)
            self._given = None
