"""Has one picture drawn by a replica, and watches over it: deadline, cancel, silence.

Knows one job and one replica. What its outcome means for the server is for the supervisor to say.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from intonaco.errors import (
    DeadlineError,
    GenerationCancelled,
    IntonacoError,
    ModelProcessError,
    RequestError,
)
from intonaco.serving.framing import Frame
from intonaco.serving.jobs import DrawnPicture, Job, JobEvent
from intonaco.serving.messages import Cancel, DrawFailed, Drawn, Stepped
from intonaco.serving.profile import ServingProfile
from intonaco.serving.replica import Replica
from intonaco.serving.watch import Verdict, Watch, decide

Outcome = DrawnPicture | IntonacoError
"""The picture, or what the client is told instead; the replica is as good as before."""


@dataclass(kw_only=True)
class Drawing:
    """One picture of `job` on `replica`. Used once.

    Attributes:
        inbox: the pending read of the replica's next frame; after `run`, the next pending one.
        on_cancel: called with the reason when the replica is told to stop.
        on_step: called after each step.
    """

    replica: Replica
    job: Job
    inbox: asyncio.Task[Frame]
    profile: ServingProfile
    clock: Callable[[], float]
    on_cancel: Callable[[str], None]
    on_step: Callable[[], None]

    def __post_init__(self) -> None:
        self._order = self.job.next_draw()
        self._watch = Watch(heard_s=self.clock(), deadline_s=self.job.deadline_s)
        self._num_partials = 0
        self._num_steps_done = 0
        self._cancel_reason = ""

    async def run(self) -> Outcome:
        """Return how it ended. Raises ModelProcessError when the replica must be replaced."""
        index = self._order.image_index
        self.job.publish(
            JobEvent(kind="started", image_index=index, num_steps=self._order.num_steps)
        )
        try:
            await self.replica.send(self._order, self.job.inputs)
            while (outcome := await self._next()) is None:
                pass
        except ModelProcessError as error:
            raise ModelProcessError(f"{error}, {self._progress()}") from None
        return outcome

    async def _next(self) -> Outcome | None:
        """Wait for a frame, a cancel or a time limit, and do what follows from it."""
        verdict = decide(
            replace(self._watch, is_unwanted=self.job.cancel_asked.is_set()),
            self.clock(),
            step_timeout_s=self.profile.step_timeout_s,
            cancel_timeout_s=self.profile.cancel_timeout_s,
        )
        if verdict.action == "replace":
            raise ModelProcessError(f"the model process ({self.replica.name}): {verdict.reason}")
        if verdict.action == "cancel":
            await self._cancel(verdict)
            return None
        await self._wait(verdict.wait_s)
        if not self.inbox.done():
            return None
        frame = self.inbox.result()
        self.inbox = asyncio.create_task(self.replica.receive())
        self._watch = replace(self._watch, heard_s=self.clock())
        return self._take(frame)

    async def _wait(self, wait_s: float) -> None:
        is_heard = self._watch.cancel_sent_s is not None
        asked = asyncio.create_task(self.job.cancel_asked.wait())
        waits = {self.inbox} if is_heard else {self.inbox, asked}
        try:
            await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()

    async def _cancel(self, verdict: Verdict) -> None:
        self._cancel_reason = verdict.reason
        self._watch = replace(self._watch, cancel_sent_s=self.clock())
        self.on_cancel(verdict.reason)
        await self.replica.send(Cancel(draw_id=self._order.draw_id))

    def _take(self, frame: Frame) -> Outcome | None:
        message = frame.message
        if not isinstance(message, Stepped | Drawn | DrawFailed):
            raise ModelProcessError(f"the model process said {message.kind} while it was drawing")
        if message.draw_id != self._order.draw_id:
            raise ModelProcessError(
                f"the model process answered {message.draw_id}, not {self._order.draw_id}"
            )
        match message:
            case Stepped():
                self._step(message, frame)
                return None
            case Drawn():
                return DrawnPicture(
                    raw=frame.pictures[0],
                    film=frame.film,
                    receipt=message.receipt,
                    warnings=message.warnings,
                    draw_ms=message.draw_ms,
                )
            case DrawFailed():
                return self._failed(message)

    def _step(self, message: Stepped, frame: Frame) -> None:
        index = self._order.image_index
        self._num_steps_done = message.index + 1
        self.on_step()
        self.job.publish(
            JobEvent(
                kind="step", image_index=index, step=message.index, num_steps=message.num_steps
            )
        )
        for preview in frame.pictures:
            self.job.publish(
                JobEvent(
                    kind="partial",
                    image_index=index,
                    step=message.index,
                    num_steps=message.num_steps,
                    partial_index=self._num_partials,
                    preview=preview,
                )
            )
            self._num_partials += 1

    def _failed(self, message: DrawFailed) -> IntonacoError:
        match message.cause:
            case "input":
                return RequestError(message.message)
            case "cancelled" if self.job.cancel_asked.is_set():
                return GenerationCancelled(f"{self._cancel_reason}, {self._progress()}")
            case "cancelled":
                taken_s = self.clock() - self.job.created_s
                return DeadlineError(f"out of time after {taken_s:.1f} s, {self._progress()}")
            case "fault":
                raise ModelProcessError(
                    f"the model process raised {message.error}: {message.message}"
                )

    def _progress(self) -> str:
        return f"after {self._num_steps_done} of {self._order.num_steps} steps"
