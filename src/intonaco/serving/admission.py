"""Takes jobs in, hands them out in turn, and ends them: done, failed, cancelled or out of time.

Knows nothing of model processes and nothing of HTTP. Everything runs on one event loop.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from intonaco.errors import DeadlineError, GenerationCancelled, IntonacoError
from intonaco.serving.jobs import DrawnPicture, Job, JobEvent
from intonaco.serving.journal import Journal
from intonaco.serving.metrics import Metrics
from intonaco.serving.queue import FairQueue

NUM_RECENT_DRAWS = 16


class Admission:
    """The jobs that wait, and the one that is being drawn.

    Attributes:
        work: set when a job has come in; whoever waits for one clears it before.
    """

    def __init__(
        self,
        *,
        max_pictures: int,
        journal: Journal,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._queue: FairQueue[Job] = FairQueue(max_pictures=max_pictures)
        self._journal = journal
        self._metrics = metrics
        self._clock = clock
        self._current: Job | None = None
        self._recent_draws_s: deque[float] = deque(maxlen=NUM_RECENT_DRAWS)
        self.work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def num_waiting(self) -> int:
        """Pictures that wait."""
        return self._queue.num_pictures

    def add(self, job: Job) -> None:
        """Queue `job`. Raises QueueFullError."""
        self._queue.add(job, retry_after_s=self._retry_after_s())
        job.publish(JobEvent(kind="queued"))
        loop = asyncio.get_running_loop()
        job.expiry = loop.call_later(max(0.0, job.deadline_s - self._clock()), self._expire, job)
        self._idle.clear()
        self.work.set()
        self._show_waiting()

    def cancel(self, job: Job, reason: str) -> None:
        """End `job`: at once where it waits, after the current step where it is drawn."""
        if job.is_finished:
            return
        job.cancel()
        if self._queue.remove(job):
            self.finish(job, GenerationCancelled(f"cancelled before it was drawn: {reason}"))

    def begin(self) -> Job | None:
        """Return the job of which a picture is to be drawn now; None where none waits."""
        job = self._current = self._queue.take()
        self._show_waiting()
        if job is None:
            self._update_idle()
        elif job.started_s is None:
            job.started_s = self._clock()
            self._metrics.queue_seconds.observe(job.started_s - job.created_s)
        return job

    def keep(self, job: Job, picture: DrawnPicture) -> None:
        """Add a picture to `job`; with pictures left it waits again."""
        self._metrics.pictures.labels("drawn").inc()
        self._metrics.draw_seconds.observe(picture.draw_ms / 1000)
        self._recent_draws_s.append(picture.draw_ms / 1000)
        if job.is_finished:
            return
        job.pictures.append(picture)
        job.publish(JobEvent(kind="picture", image_index=len(job.pictures) - 1))
        if job.num_pictures_left == 0:
            self.finish(job)
        elif job.cancel_asked.is_set():
            self.finish(job, GenerationCancelled("cancelled by its client between two pictures"))
        else:
            self._queue.put_back(job)
            self._show_waiting()

    def end(self) -> None:
        """Say that nothing is being drawn any more; a job with pictures left waits again by now."""
        self._current = None
        self._update_idle()

    def finish(self, job: Job, error: IntonacoError | None = None) -> None:
        """End `job`; a second end changes nothing."""
        if job.is_finished:
            return
        job.finish(self._clock(), error)
        self._journal.write(
            "job_ended",
            request_id=job.job_id,
            status=job.status,
            error=type(error).__name__ if error else None,
            message=str(error) if error else None,
            num_pictures=len(job.pictures),
        )
        if error is not None:
            self._metrics.pictures.labels(type(error).__name__).inc(job.num_pictures_left)
        self._show_waiting()
        self._update_idle()

    def fail_waiting(self, error: IntonacoError) -> None:
        """End every job that waits."""
        while (job := self._queue.take()) is not None:
            self.finish(job, error)
        self._update_idle()

    def fail_all(self, error: IntonacoError) -> None:
        """End every job, the one that is being drawn too."""
        self.fail_waiting(error)
        if self._current is not None:
            self.finish(self._current, error)

    async def await_idle(self) -> None:
        """Return when nothing waits and nothing is drawn."""
        await self._idle.wait()

    def _retry_after_s(self) -> int:
        """Return in how many seconds about half of what waits will be done."""
        recent = self._recent_draws_s
        mean_s = sum(recent) / len(recent) if recent else 1.0
        return max(1, math.ceil(mean_s * self._queue.num_pictures / 2))

    def _expire(self, job: Job) -> None:
        """End a job whose time is up while it waits; one that is drawn is watched elsewhere."""
        if self._queue.remove(job):
            waited_s = self._clock() - job.created_s
            self.finish(job, DeadlineError(f"out of time after {waited_s:.1f} s in the queue"))

    def _show_waiting(self) -> None:
        self._metrics.waiting.set(self._queue.num_pictures)

    def _update_idle(self) -> None:
        if self._current is None and self._queue.num_pictures == 0:
            self._idle.set()
