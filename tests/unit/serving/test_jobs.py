import asyncio

import pytest

from intonaco.errors import DeadlineError
from intonaco.serving.jobs import DrawnPicture, Job, JobBook, JobEvent, new_id, preview_steps
from tests.support.fake_model_process import fake_picture
from tests.unit.serving.test_messages import draw


def make_job(job_id: str = "req-1", **fields) -> Job:
    values = {
        "caller": "c",
        "order": draw(),
        "created_s": 0.0,
        "created_at": 1e9,
        "deadline_s": 9.0,
    }
    return Job(**{"job_id": job_id, **values, **fields})


@pytest.mark.parametrize(
    ("num_previews", "num_steps", "steps"),
    [(0, 8, ()), (1, 8, (3,)), (3, 8, (1, 3, 5)), (3, 2, (0,)), (3, 1, ()), (3, 4, (0, 1, 2))],
)
def test_previews_are_spread_and_never_show_the_last_step(num_previews, num_steps, steps):
    assert preview_steps(num_previews, num_steps) == steps


def test_ids_are_unique():
    assert len({new_id() for _ in range(10_000)}) == 10_000


def test_each_picture_has_its_own_index_and_id():
    job = make_job(num_pictures=2)
    first = job.next_draw()
    job.pictures.append(DrawnPicture(raw=fake_picture(first), receipt="", warnings=(), draw_ms=1.0))
    second = job.next_draw()
    assert [first.image_index, second.image_index] == [0, 1]
    assert first.draw_id != second.draw_id


def test_after_its_end_nothing_happens_to_a_job_any_more():
    async def live() -> Job:
        job = make_job()
        job.finish(1.0, DeadlineError("late"))
        job.publish(JobEvent(kind="step"))
        job.finish(2.0)
        return job

    job = asyncio.run(live())
    assert ([event.kind for event in job.events], job.status) == (["failed"], "failed")
    assert job.finished_s == 1.0


def test_a_late_follower_sees_every_event():
    async def live() -> list[str]:
        job = make_job()
        job.publish(JobEvent(kind="queued"))
        job.finish(1.0)
        return [event.kind async for event in job.follow()]

    assert asyncio.run(live()) == ["queued", "done"]


def test_the_book_forgets_the_oldest_finished_jobs_and_no_running_one():
    async def live() -> list[str]:
        book = JobBook(max_finished=1)
        running = make_job("running")
        book.add(running)
        for name in ("one", "two", "three"):
            job = make_job(name)
            job.finish(1.0)
            book.add(job)
        return [name for name in ("running", "one", "two", "three") if book.find(name)]

    assert asyncio.run(live()) == ["running", "three"]


def test_the_book_keeps_no_more_pixels_than_it_may():
    async def live() -> list[str]:
        book = JobBook(max_finished=9, max_bytes=2 * 64 * 64 * 3)
        names = ("one", "two", "three")
        for name in names:
            job = make_job(name)
            raw = fake_picture(job.next_draw())
            job.pictures.append(DrawnPicture(raw=raw, receipt="", warnings=(), draw_ms=1.0))
            job.finish(1.0)
            book.add(job)
        return [name for name in names if book.find(name)]

    assert asyncio.run(live()) == ["two", "three"]


def test_a_film_counts_as_what_the_book_keeps():
    async def live() -> list[str]:
        book = JobBook(max_finished=9, max_bytes=2 * 64 * 64 * 3)
        for name, film in (("one", b""), ("two", bytes(64 * 64 * 3))):
            job = make_job(name)
            book.add(job)
            raw = fake_picture(job.next_draw())
            job.pictures.append(
                DrawnPicture(raw=raw, film=film, receipt="", warnings=(), draw_ms=1.0)
            )
            job.finish(1.0)
        return [name for name in ("one", "two") if book.find(name)]

    assert asyncio.run(live()) == ["two"]


def test_the_book_forgets_what_ended_first_as_soon_as_another_ends():
    async def live() -> list[list[str]]:
        book = JobBook(max_finished=1)
        jobs = [make_job(name) for name in ("one", "two")]
        seen = []
        for job in jobs:
            book.add(job)
        for now_s, job in enumerate(reversed(jobs), start=1):
            job.finish(float(now_s))
            seen.append([name for name in ("one", "two") if book.find(name)])
        return seen

    assert asyncio.run(live()) == [["one", "two"], ["one"]]


def test_progress_is_told_in_percent_of_all_steps():
    async def live() -> list[int]:
        job = make_job(num_pictures=2)
        seen = [job.percent]
        for _ in range(2):
            for step in range(4):
                job.publish(JobEvent(kind="step", step=step, num_steps=4))
            seen.append(job.percent)
        job.finish(1.0)
        return [*seen, job.percent]

    assert asyncio.run(live()) == [0, 50, 99, 100]


def test_the_end_of_a_job_is_told_on_the_calendars_clock():
    async def live() -> list[float | None]:
        job = make_job(created_s=2.0)
        before = job.completed_at
        job.finish(5.5)
        return [before, job.completed_at]

    assert asyncio.run(live()) == [None, 1e9 + 3.5]
