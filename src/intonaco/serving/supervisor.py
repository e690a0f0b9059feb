"""Keeps one model process serving: starts it, hands it pictures, replaces it when it cannot be trusted.

    starting -> warming -> ready <-> busy -> cancelling -> ready
                   ^                 |            |
                   +- restarting <- stopping <----+        any start that cannot succeed -> failed

Knows frames and jobs, nothing of HTTP. Everything runs on one event loop.
"""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Callable

from intonaco.errors import (
    DeadlineError,
    GenerationCancelled,
    IntonacoError,
    ModelProcessError,
    NotReadyError,
)
from intonaco.serving.drawing import Drawing
from intonaco.serving.framing import Frame
from intonaco.serving.jobs import DrawnPicture, Job, JobEvent
from intonaco.serving.journal import Journal
from intonaco.serving.messages import ModelFacts
from intonaco.serving.metrics import Metrics
from intonaco.serving.profile import ServingProfile
from intonaco.serving.queue import FairQueue
from intonaco.serving.replica import Replica, ReplicaFactory
from intonaco.serving.starting import StartRefusedError, await_ready
from intonaco.serving.states import SERVING_STATES, State, Status

NUM_RECENT_DRAWS = 16
RESTART_PAUSE_S = 0.5


class Supervisor:
    """Owns the replica, the queue and the state. `run` is its whole life."""

    def __init__(
        self,
        profile: ServingProfile,
        make_replica: ReplicaFactory,
        *,
        journal: Journal,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._profile = profile
        self._make_replica = make_replica
        self._journal = journal
        self._metrics = metrics
        self.clock = clock
        self._queue: FairQueue[Job] = FairQueue(max_pictures=profile.max_queue)
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._current: Job | None = None
        self._recent_draws_s: deque[float] = deque(maxlen=NUM_RECENT_DRAWS)
        self._is_draining = False
        self.status = Status(state=State.STARTING, reason="the server has just started")
        self.facts: ModelFacts | None = None
        self.replica_name = "none yet"

    # What the API calls

    @property
    def is_ready(self) -> bool:
        return self.status.state in SERVING_STATES and not self._is_draining

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    @property
    def num_waiting(self) -> int:
        return self._queue.num_pictures

    def check_accepting(self) -> ModelFacts:
        """Return the model's facts. Raises NotReadyError where nothing new is taken in."""
        if self._is_draining:
            raise NotReadyError("the server is shutting down; ask another", retry_after_s=30)
        if self.status.state is State.FAILED or self.facts is None:
            raise NotReadyError(
                f"the server is {self.status.state}: {self.status.reason}", retry_after_s=5
            )
        return self.facts

    def submit(self, job: Job) -> None:
        """Queue `job`. Raises QueueFullError, NotReadyError."""
        self.check_accepting()
        self._queue.add(job, retry_after_s=self.retry_after_s())
        job.publish(JobEvent(kind="queued"))
        loop = asyncio.get_running_loop()
        job.expiry = loop.call_later(max(0.0, job.deadline_s - self.clock()), self._expire, job)
        self._idle.clear()
        self._work.set()
        self._metrics.waiting.set(self._queue.num_pictures)

    def cancel(self, job: Job, reason: str) -> None:
        """End `job`: at once where it waits, after the current step where it is drawn."""
        if job.is_finished:
            return
        job.cancel()
        if self._queue.remove(job):
            self._finish(job, GenerationCancelled(f"cancelled before it was drawn: {reason}"))

    def retry_after_s(self) -> int:
        """Return in how many seconds about half of what waits will be done."""
        recent = self._recent_draws_s
        mean_s = sum(recent) / len(recent) if recent else 1.0
        return max(1, math.ceil(mean_s * self._queue.num_pictures / 2))

    async def drain(self) -> None:
        """Take in nothing new; return when all that was accepted is done, or time is up."""
        self._is_draining = True
        self._journal.write("draining", waiting=self._queue.num_pictures)
        if self.status.state not in SERVING_STATES:
            self._fail_waiting(NotReadyError("the server is shutting down", retry_after_s=30))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._profile.drain_timeout_s):
                await self._idle.wait()
        error = NotReadyError("the server shut down before this was drawn", retry_after_s=30)
        self._fail_waiting(error)
        if self._current is not None:
            self._finish(self._current, error)

    # Life

    async def run(self) -> None:
        """Start, serve and replace model processes until cancelled; leaves no process behind."""
        num_failures = 0
        while self.status.state is not State.FAILED:
            replica = self._make_replica()
            try:
                await self._warm(replica)
                num_failures = 0
                await self._serve(replica)
            except StartRefusedError as error:
                await self._stop(replica, error)
                self._fail(str(error))
            except ModelProcessError as error:
                num_failures += self.status.state is State.WARMING
                await self._stop(replica, error)
                if num_failures >= self._profile.max_starts:
                    self._fail(f"{num_failures} starts in a row failed, the last one: {error}")
            except asyncio.CancelledError:
                is_up = self.status.state in SERVING_STATES
                await replica.end(grace_s=self._profile.stop_timeout_s if is_up else 0)
                raise
            if self.status.state is State.STOPPING:
                self._become(State.RESTARTING, self.status.reason)
                await asyncio.sleep(RESTART_PAUSE_S * num_failures)

    async def _warm(self, replica: Replica) -> None:
        """Start `replica`; return when its smoke generation passed. Raises ModelProcessError."""
        if self.status.state is State.STARTING:
            self._journal.write("starting")
        await replica.start()
        self.replica_name = replica.name
        self._become(State.WARMING, "the model process starts")
        try:
            facts = await await_ready(
                replica,
                self._profile,
                before=self.facts,
                on_phase=lambda phase: self._become(State.WARMING, phase),
            )
        except ModelProcessError:
            self._metrics.starts.labels("failed").inc()
            raise
        self._metrics.starts.labels("ready").inc()
        self.facts = facts
        self._become(State.READY, f"serving {facts.model_name} ({replica.name})")

    async def _serve(self, replica: Replica) -> None:
        """Draw what waits. Raises ModelProcessError when the replica is of no use any more."""
        inbox: asyncio.Task[Frame] = asyncio.create_task(replica.receive())
        try:
            while True:
                job = self._take()
                if job is None:
                    inbox = await self._await_work(inbox)
                    continue
                inbox = await self._draw(replica, job, inbox)
        finally:
            inbox.cancel()
            with contextlib.suppress(asyncio.CancelledError, IntonacoError):
                await inbox

    async def _draw(
        self, replica: Replica, job: Job, inbox: asyncio.Task[Frame]
    ) -> asyncio.Task[Frame]:
        """Have the next picture of `job` drawn; return the pending read that follows."""
        self._current = job
        if job.started_s is None:
            job.started_s = self.clock()
            self._metrics.queue_seconds.observe(job.started_s - job.created_s)
        self._become(State.BUSY, f"drawing ({replica.name})")
        drawing = Drawing(
            replica=replica,
            job=job,
            inbox=inbox,
            profile=self._profile,
            clock=self.clock,
            on_cancel=lambda reason: self._become(State.CANCELLING, reason),
            on_step=self._metrics.steps.inc,
        )
        try:
            outcome = await drawing.run()
            if isinstance(outcome, DrawnPicture):
                self._keep(job, outcome)
            else:
                self._finish(job, outcome)
        except ModelProcessError as error:
            self._finish(job, error)
            raise
        finally:
            # Only now: a job with pictures left is in the queue again.
            self._current = None
            self._update_idle()
        return drawing.inbox

    def _keep(self, job: Job, picture: DrawnPicture) -> None:
        self._metrics.pictures.labels("drawn").inc()
        self._metrics.draw_seconds.observe(picture.draw_ms / 1000)
        self._recent_draws_s.append(picture.draw_ms / 1000)
        if job.is_finished:
            return
        job.pictures.append(picture)
        job.publish(JobEvent(kind="picture", image_index=len(job.pictures) - 1))
        if job.num_pictures_left == 0:
            self._finish(job)
        elif job.cancel_asked.is_set():
            self._finish(job, GenerationCancelled("cancelled by its client between two pictures"))
        else:
            self._queue.put_back(job)

    async def _await_work(self, inbox: asyncio.Task[Frame]) -> asyncio.Task[Frame]:
        """Return when a job waits; an idle replica that speaks or ends is of no use."""
        if self.status.state is not State.READY:
            self._become(State.READY, f"serving ({self.replica_name})")
        self._work.clear()
        work = asyncio.create_task(self._work.wait())
        try:
            await asyncio.wait({work, inbox}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
        if inbox.done():
            raise ModelProcessError(f"unasked for: {inbox.result().message.kind}")
        return inbox

    def _take(self) -> Job | None:
        """Return the next job; None where none waits."""
        job = self._queue.take()
        self._metrics.waiting.set(self._queue.num_pictures)
        if job is None:
            self._update_idle()
        return job

    def _expire(self, job: Job) -> None:
        """End a job whose time is up while it waits; one that is drawn is watched elsewhere."""
        if self._queue.remove(job):
            waited_s = self.clock() - job.created_s
            self._finish(job, DeadlineError(f"out of time after {waited_s:.1f} s in the queue"))

    async def _stop(self, replica: Replica, error: ModelProcessError) -> None:
        """End `replica` for certain. A process that cannot be ended makes the server fail."""
        self._become(State.STOPPING, str(error))
        try:
            how = await replica.end(grace_s=0)
            self._journal.write("model_process_gone", process=replica.name, how=how)
        except ModelProcessError as remains:
            self._fail(str(remains))

    def _fail(self, reason: str) -> None:
        self._become(State.FAILED, reason)
        self._fail_waiting(NotReadyError(f"the server has failed: {reason}", retry_after_s=60))

    def _fail_waiting(self, error: IntonacoError) -> None:
        while (job := self._queue.take()) is not None:
            self._finish(job, error)
        self._update_idle()

    def _become(self, state: State, reason: str) -> None:
        if self.status.state is not state or self.status.reason != reason:
            is_news = (
                state not in (State.READY, State.BUSY) or self.status.state not in SERVING_STATES
            )
            self.status = Status(state=state, reason=reason)
            self._metrics.show_state(state)
            if is_news:
                self._journal.write("state", state=state, reason=reason, process=self.replica_name)

    def _finish(self, job: Job, error: IntonacoError | None = None) -> None:
        if job.is_finished:
            return
        job.finish(self.clock(), error)
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
        self._update_idle()

    def _update_idle(self) -> None:
        if self._current is None and self._queue.num_pictures == 0:
            self._idle.set()
