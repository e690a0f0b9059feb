"""What all routes share: one object made at start, handed to them, no global."""

import asyncio
import time
from dataclasses import dataclass

from intonaco.errors import IntonacoError
from intonaco.serving.bodies import Common, Shared
from intonaco.serving.checks import Limits
from intonaco.serving.jobs import DrawnPicture, Job, JobBook
from intonaco.serving.journal import Journal
from intonaco.serving.messages import Draw, RawPicture
from intonaco.serving.metrics import Metrics
from intonaco.serving.orders import make_job
from intonaco.serving.pixels import encode
from intonaco.serving.profile import ServingProfile
from intonaco.serving.supervisor import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a running server."""

    profile: ServingProfile
    supervisor: Supervisor
    journal: Journal
    metrics: Metrics
    jobs: JobBook
    api_key: str | None = None

    def limits(self) -> Limits:
        """Return what requests are checked against. Raises NotReadyError."""
        return Limits(profile=self.profile, facts=self.supervisor.check_accepting())

    def submit(
        self, order: Draw, inputs: tuple[RawPicture, ...], body: Common, *, caller: str, job_id: str
    ) -> Job:
        """Queue a checked order as a job. Raises QueueFullError, NotReadyError."""
        job = make_job(
            order,
            inputs,
            body,
            self.limits(),
            caller=caller,
            now_s=self.supervisor.clock(),
            created_at=time.time(),
            job_id=job_id,
        )
        self.supervisor.submit(job)
        self.jobs.add(job)
        self.journal.write(
            "job_queued",
            request_id=job.job_id,
            prompt=order.prompt,
            task=order.task,
            size=f"{order.width}x{order.height}",
            num_steps=order.num_steps,
            num_frames=order.num_frames if order.task == "film" else None,
            num_pictures=job.num_pictures,
            user=body.user,
        )
        return job


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How a job's pictures are handed out."""

    output_format: str = "png"
    compression: int | None = None

    @classmethod
    def of(cls, body: Shared) -> "Output":
        """Return what `body` asks for."""
        return cls(output_format=body.output_format or "png", compression=body.output_compression)

    async def encode(self, raw: RawPicture, receipt: str = "") -> bytes:
        """Return a picture as a file; done on another thread, as it takes milliseconds."""
        return await asyncio.to_thread(
            encode,
            raw,
            output_format=self.output_format,
            compression=self.compression,
            receipt=receipt,
        )

    async def encode_drawn(self, picture: DrawnPicture) -> bytes:
        """Return a finished picture as a file, with its receipt where the format can carry it."""
        return await self.encode(picture.raw, picture.receipt)


def error_of(job: Job) -> IntonacoError:
    """Return why `job` failed."""
    return job.error or IntonacoError(f"{job.job_id} has not failed")
