"""A job: what one request asked for, what has happened to it, and who follows that.

Lives in the API process, made when a request was found good. Not shared between threads.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Literal

from intonaco.errors import IntonacoError
from intonaco.serving.messages import Draw, RawPicture

EventKind = Literal["queued", "started", "step", "partial", "picture", "failed", "done"]
MAX_KEPT_BYTES = 256 << 20
FINAL_KINDS = frozenset({"failed", "done"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPicture:
    """One finished picture of a job, or a film: its first frame, and the whole of it as MP4."""

    raw: RawPicture
    film: bytes = b""
    receipt: str
    warnings: tuple[str, ...]
    draw_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """Something that happened to a job; `image_index` says to which of its pictures."""

    kind: EventKind
    image_index: int = 0
    step: int = 0
    num_steps: int = 0
    partial_index: int = 0
    preview: RawPicture | None = None
    message: str = ""


@dataclass(kw_only=True, eq=False)
class Job:
    """`num_pictures` pictures under one seed. Mutable: its state is its life.

    Attributes:
        order: what to draw; its `image_index` and `draw_id` are set per picture.
        inputs: the pixels that `order.pictures` describe.
        created_s, started_s, finished_s, deadline_s: on the supervisor's clock.
        created_at: when it was made, in seconds since 1970.
        on_end: called once, when the job has ended.
    """

    job_id: str
    caller: str
    order: Draw
    inputs: tuple[RawPicture, ...] = ()
    num_pictures: int = 1
    created_s: float
    created_at: float
    deadline_s: float
    started_s: float | None = None
    finished_s: float | None = None
    pictures: list[DrawnPicture] = field(default_factory=list[DrawnPicture])
    events: list[JobEvent] = field(default_factory=list[JobEvent])
    error: IntonacoError | None = None
    expiry: asyncio.TimerHandle | None = None
    on_end: Callable[[], None] | None = None
    cancel_asked: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def num_pictures_left(self) -> int:
        return self.num_pictures - len(self.pictures)

    @property
    def num_bytes(self) -> int:
        """Bytes of the pixels and films that are kept for this job."""
        previews = [event.preview for event in self.events if event.preview is not None]
        pictures = [picture.raw for picture in self.pictures]
        films = sum(len(picture.film) for picture in self.pictures)
        return films + sum(raw.header.num_bytes for raw in (*pictures, *previews))

    @property
    def completed_at(self) -> float | None:
        """When it ended, in seconds since 1970; None while it has not."""
        if self.finished_s is None:
            return None
        return self.created_at + self.finished_s - self.created_s

    @property
    def percent(self) -> int:
        """How many of its steps are done, in percent; 100 only of a job that is completed."""
        if self.status == "completed":
            return 100
        num_steps = self.num_pictures * self.order.num_steps
        num_done = sum(event.kind == "step" for event in self.events)
        return min(99, 100 * num_done // num_steps)

    @property
    def is_finished(self) -> bool:
        return self.finished_s is not None

    @property
    def status(self) -> str:
        """One of queued, in_progress, completed, failed."""
        if self.is_finished:
            return "failed" if self.error else "completed"
        return "queued" if self.started_s is None else "in_progress"

    def next_draw(self) -> Draw:
        """Return the message for the next picture."""
        index = len(self.pictures)
        update = {"image_index": index, "draw_id": f"{self.job_id}-{index}"}
        return self.order.model_copy(update=update)

    def cancel(self) -> None:
        """Ask that this job ends; the supervisor sees it at once, the drawing at its next step."""
        self.cancel_asked.set()

    def publish(self, event: JobEvent) -> None:
        """Tell all followers of `event`; after the end of a job nothing happens to it any more."""
        if self.is_finished:
            return
        self.events.append(event)
        self._news.set()
        self._news = asyncio.Event()

    def finish(self, now_s: float, error: IntonacoError | None = None) -> None:
        """End the job; a second end changes nothing."""
        if self.is_finished:
            return
        self.error = error
        self.inputs = ()
        if self.expiry is not None:
            self.expiry.cancel()
        kind: EventKind = "failed" if error else "done"
        self.publish(JobEvent(kind=kind, message=str(error) if error else ""))
        self.finished_s = now_s
        if self.on_end is not None:
            self.on_end()

    async def follow(self) -> AsyncIterator[JobEvent]:
        """Yield every event from the first one, until the job has ended."""
        index = 0
        while True:
            news = self._news
            while index < len(self.events):
                event = self.events[index]
                index += 1
                yield event
                if event.kind in FINAL_KINDS:
                    return
            await news.wait()

    async def wait(self) -> None:
        """Return when the job has ended."""
        while not self.is_finished:
            await self._news.wait()


class JobBook:
    """The jobs that can be looked up by id: all that run, and the latest that ended."""

    def __init__(self, *, max_finished: int, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_finished = max_finished
        self._max_bytes = max_bytes
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def add(self, job: Job) -> None:
        """Keep `job` while it runs, and afterwards within the bounds."""
        self._jobs[job.job_id] = job
        job.on_end = self._forget_oldest
        if job.is_finished:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget the jobs that ended first, beyond the bounds; never the one that ended last."""
        ended = [(job.finished_s, job) for job in self._jobs.values() if job.finished_s is not None]
        finished = [job for _, job in sorted(ended, key=lambda pair: pair[0])]
        num_bytes = sum(one.num_bytes for one in finished)
        while len(finished) > 1 and (
            len(finished) > self._max_finished or num_bytes > self._max_bytes
        ):
            oldest = finished.pop(0)
            num_bytes -= oldest.num_bytes
            del self._jobs[oldest.job_id]

    def films(self) -> list[Job]:
        """Return all jobs that draw films, the oldest first."""
        return [job for job in self._jobs.values() if job.order.task == "film"]

    def find(self, job_id: str) -> Job | None:
        """Return the job with this id, or None."""
        return self._jobs.get(job_id)

    def forget(self, job: Job) -> None:
        """Drop `job`, whose result was handed over."""
        self._jobs.pop(job.job_id, None)


def new_id() -> str:
    """Return an id that no other request has: 96 random bits."""
    return f"req-{secrets.token_hex(12)}"


def preview_steps(num_previews: int, num_steps: int) -> tuple[int, ...]:
    """Return the steps after which previews are decoded: evenly spread, never the last one.

    >>> preview_steps(3, 8)
    (1, 3, 5)
    """
    count = min(num_previews, num_steps - 1)
    return tuple((index + 1) * num_steps // (count + 1) - 1 for index in range(count))
