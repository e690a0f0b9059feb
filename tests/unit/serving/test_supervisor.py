"""The supervisor over a replica that is a script: no process, no time."""

import asyncio
import io
from collections.abc import Callable

import pytest

from intonaco.errors import ModelProcessError, NotReadyError
from intonaco.serving.framing import Frame
from intonaco.serving.journal import Journal
from intonaco.serving.messages import (
    Draw,
    Drawn,
    Load,
    Loading,
    Ready,
    StartFailed,
    Stepped,
)
from intonaco.serving.metrics import Metrics
from intonaco.serving.profile import ServingProfile
from intonaco.serving.states import State
from intonaco.serving.supervisor import Supervisor
from tests.support.fake_model_process import fake_picture, fake_receipt, make_facts
from tests.unit.serving.test_jobs import make_job


class ScriptedReplica:
    """Answers a load with `start`, and every draw with a picture. Ends when `dies_after` are drawn."""

    def __init__(self, *start, dies_after: int = 99) -> None:
        self._start = start
        self._left = dies_after
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()
        self.ends: list[float] = []
        self.name = "scripted"

    async def start(self) -> None:
        return

    async def send(self, message, pictures=()) -> None:
        match message:
            case Load():
                for answer in self._start:
                    self._frames.put_nowait(Frame(message=answer))
            case Draw() if self._left == 0:
                self._frames.put_nowait(None)
            case Draw():
                self._left -= 1
                self._answer(message)

    def _answer(self, order: Draw) -> None:
        step = Stepped(draw_id=order.draw_id, index=0, num_steps=1, elapsed_s=0.0)
        self._frames.put_nowait(Frame(message=step))
        raw = fake_picture(order)
        drawn = Drawn(
            draw_id=order.draw_id,
            receipt=fake_receipt(order, raw),
            warnings=(),
            draw_ms=1.0,
            pictures=(raw.header,),
        )
        self._frames.put_nowait(Frame(message=drawn, pictures=(raw,)))

    async def receive(self) -> Frame:
        frame = await self._frames.get()
        if frame is None:
            raise ModelProcessError("the model process was ended by SIGKILL")
        return frame

    async def end(self, *, grace_s: float) -> str:
        self.ends.append(grace_s)
        return "was ended"


READY = Ready(facts=make_facts())


def run_with(
    replicas: list[ScriptedReplica], live: Callable[[Supervisor], object], **fields: object
) -> Supervisor:
    """Run a supervisor over `replicas`, one after the other, while `live` lives."""

    async def main() -> Supervisor:
        left = list(replicas)
        profile = ServingProfile.model_validate(fields)
        supervisor = Supervisor(
            profile,
            lambda: left.pop(0),
            journal=Journal(io.StringIO()),
            metrics=Metrics(tuple(State)),
            clock=asyncio.get_running_loop().time,
        )
        life = asyncio.create_task(supervisor.run())
        try:
            async with asyncio.timeout(60):
                await live(supervisor)
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
        return supervisor

    return asyncio.run(main())


async def until(supervisor: Supervisor, state: State) -> None:
    while supervisor.status.state is not state:
        await asyncio.sleep(0)


def drawn_jobs(count: int, jobs: list) -> Callable[[Supervisor], object]:
    async def live(supervisor: Supervisor) -> None:
        await until(supervisor, State.READY)
        now_s = supervisor.clock()
        for index in range(count):
            job = make_job(f"req-{index}", num_pictures=2, created_s=now_s, deadline_s=now_s + 60)
            jobs.append(job)
            supervisor.submit(job)
        for job in jobs:
            await job.wait()

    return live


def test_every_job_gets_all_of_its_pictures():
    jobs: list = []
    run_with([ScriptedReplica(Loading(phase="loading"), READY)], drawn_jobs(5, jobs))
    assert [(job.status, len(job.pictures)) for job in jobs] == [("completed", 2)] * 5


def test_a_death_costs_the_job_that_was_drawn_and_no_other():
    jobs: list = []
    first = ScriptedReplica(READY, dies_after=1)
    run_with([first, ScriptedReplica(READY)], drawn_jobs(3, jobs))
    assert sorted(job.status for job in jobs) == ["completed", "completed", "failed"]
    assert first.ends == [0]


@pytest.mark.parametrize(("is_final", "num_used"), [(True, 1), (False, 2)])
def test_a_failed_start_is_tried_again_only_where_that_may_help(is_final, num_used):
    fault = StartFailed(error="OSError", message="no space", is_final=is_final)
    replicas = [ScriptedReplica(fault), ScriptedReplica(fault)]
    supervisor = run_with(replicas, lambda one: until(one, State.FAILED), max_starts=2)
    assert sum(len(replica.ends) for replica in replicas) == num_used
    with pytest.raises(NotReadyError, match="OSError: no space"):
        supervisor.check_accepting()


def test_other_weights_after_a_restart_are_not_served():
    other = Ready(facts=make_facts().model_copy(update={"model_digest": "e" * 64}))
    jobs: list = []
    replicas = [ScriptedReplica(READY, dies_after=0), ScriptedReplica(other)]

    async def live(supervisor: Supervisor) -> None:
        await drawn_jobs(1, jobs)(supervisor)  # type: ignore[misc]
        await until(supervisor, State.FAILED)

    supervisor = run_with(replicas, live)
    assert supervisor.status.reason.startswith("model_digest was ffffffffffff before the restart")


def test_a_drain_waits_for_pictures_that_are_still_to_come():
    jobs: list = []

    async def live(supervisor: Supervisor) -> None:
        await until(supervisor, State.READY)
        now_s = supervisor.clock()
        jobs.append(make_job(num_pictures=5, created_s=now_s, deadline_s=now_s + 60))
        supervisor.submit(jobs[0])
        await supervisor.drain()

    run_with([ScriptedReplica(READY)], live)
    assert [(job.status, len(job.pictures)) for job in jobs] == [("completed", 5)]
