"""Keeps one model process serving: starts it, hands it pictures, replaces it when it cannot be trusted.

    starting -> warming -> ready <-> busy -> cancelling -> ready
                   ^                 |            |
                   +- restarting <- stopping <----+        any start that cannot succeed -> failed

Knows frames and jobs, nothing of HTTP and nothing of queues. Everything runs on one event loop.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable

from intonaco.errors import IntonacoError, ModelProcessError, NotReadyError
from intonaco.serving.admission import Admission
from intonaco.serving.drawing import Drawing
from intonaco.serving.framing import Frame
from intonaco.serving.jobs import DrawnPicture, Job
from intonaco.serving.journal import Journal
from intonaco.serving.messages import ModelFacts
from intonaco.serving.metrics import Metrics
from intonaco.serving.profile import ServingProfile
from intonaco.serving.replica import Replica, ReplicaFactory
from intonaco.serving.starting import StartRefusedError, await_ready
from intonaco.serving.states import SERVING_STATES, State, Status

RESTART_PAUSE_S = 0.5


class Supervisor:
    """Owns the replica and the state, and feeds it what waits. `run` is its whole life."""

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
        self._jobs = Admission(
            max_pictures=profile.max_queue, journal=journal, metrics=metrics, clock=clock
        )
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
        return self._jobs.num_waiting

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
        self._jobs.add(job)

    def cancel(self, job: Job, reason: str) -> None:
        """End `job`: at once where it waits, after the current step where it is drawn."""
        self._jobs.cancel(job, reason)

    async def drain(self) -> None:
        """Take in nothing new; return when all that was accepted is done, or time is up."""
        self._is_draining = True
        self._journal.write("draining", waiting=self._jobs.num_waiting)
        if self.status.state not in SERVING_STATES:
            self._jobs.fail_waiting(NotReadyError("the server is shutting down", retry_after_s=30))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._profile.drain_timeout_s):
                await self._jobs.await_idle()
        self._jobs.fail_all(
            NotReadyError("the server shut down before this was drawn", retry_after_s=30)
        )

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
                job = self._jobs.begin()
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
                self._jobs.keep(job, outcome)
            else:
                self._jobs.finish(job, outcome)
        except ModelProcessError as error:
            self._jobs.finish(job, error)
            raise
        finally:
            self._jobs.end()
        return drawing.inbox

    async def _await_work(self, inbox: asyncio.Task[Frame]) -> asyncio.Task[Frame]:
        """Return when a job waits; an idle replica that speaks or ends is of no use."""
        if self.status.state is not State.READY:
            self._become(State.READY, f"serving ({self.replica_name})")
        self._jobs.work.clear()
        work = asyncio.create_task(self._jobs.work.wait())
        try:
            await asyncio.wait({work, inbox}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
        if inbox.done():
            raise ModelProcessError(f"unasked for: {inbox.result().message.kind}")
        return inbox

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
        error = NotReadyError(f"the server has failed: {reason}", retry_after_s=60)
        self._jobs.fail_waiting(error)

    def _become(self, state: State, reason: str) -> None:
        if self.status.state is not state or self.status.reason != reason:
            is_news = (
                state not in (State.READY, State.BUSY) or self.status.state not in SERVING_STATES
            )
            self.status = Status(state=state, reason=reason)
            self._metrics.show_state(state)
            if is_news:
                self._journal.write("state", state=state, reason=reason, process=self.replica_name)
