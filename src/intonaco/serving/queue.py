"""The bounded, fair queue: callers take turns, picture by picture. Knows nothing of sockets.

caller A: a job of 3 pictures, a job of 1      order drawn:  A1 B1 A2 B2 A3 A4
caller B: a job of 2
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from intonaco.errors import QueueFullError


class Waiting(Protocol):
    """What the queue needs to know of a job."""

    @property
    def caller(self) -> str: ...

    @property
    def num_pictures_left(self) -> int: ...


Job = TypeVar("Job", bound=Waiting)


class FairQueue(Generic[Job]):
    """Jobs that wait. The bound counts pictures, since those are the work."""

    def __init__(self, *, max_pictures: int) -> None:
        self._max_pictures = max_pictures
        self._lines: OrderedDict[str, deque[Job]] = OrderedDict()

    def __iter__(self) -> Iterator[Job]:
        return (job for line in self._lines.values() for job in line)

    @property
    def num_pictures(self) -> int:
        """Pictures that wait."""
        return sum(job.num_pictures_left for job in self)

    def add(self, job: Job, *, retry_after_s: int) -> None:
        """Put `job` at the end of its caller's line. Raises QueueFullError beyond the bound."""
        waiting = self.num_pictures
        if waiting + job.num_pictures_left > self._max_pictures:
            raise QueueFullError(
                f"the queue holds {waiting} of {self._max_pictures} pictures, no room for "
                f"{job.num_pictures_left}; ask again in {retry_after_s} s",
                retry_after_s=retry_after_s,
            )
        self._lines.setdefault(job.caller, deque()).append(job)

    def take(self) -> Job | None:
        """Remove and return the first job of the caller whose turn it is; None if none waits."""
        if not self._lines:
            return None
        caller, line = next(iter(self._lines.items()))
        job = line.popleft()
        del self._lines[caller]
        if line:
            self._lines[caller] = line
        return job

    def put_back(self, job: Job) -> None:
        """Put a job with pictures left first in its caller's line, and its caller last of all."""
        line = self._lines.pop(job.caller, deque[Job]())
        line.appendleft(job)
        self._lines[job.caller] = line

    def remove(self, job: Job) -> bool:
        """Take `job` out of the queue; return whether it was there."""
        line = self._lines.get(job.caller)
        if line is None or job not in line:
            return False
        line.remove(job)
        if not line:
            del self._lines[job.caller]
        return True
