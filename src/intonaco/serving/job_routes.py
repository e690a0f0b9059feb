"""Jobs: draw without waiting for the answer; follow, read and cancel by id."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from intonaco.errors import FieldError
from intonaco.serving.answers import job_fields, job_stream, json_response
from intonaco.serving.bodies import GenerationBody
from intonaco.serving.image_routes import submit
from intonaco.serving.jobs import Job
from intonaco.serving.orders import generation_order
from intonaco.serving.schemas import FAULTS, STREAM, ErrorAnswer, JobAnswer
from intonaco.serving.service import Output, Service

MISSING: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorAnswer, "description": "no such job, or it was forgotten"}
}


def job_router(service: Service) -> APIRouter:
    """Return the job routes of `service`. The id of any running request works too."""
    router = APIRouter(tags=["jobs"], responses={**FAULTS, **MISSING})
    routes = JobRoutes(service)
    router.post("/v1/jobs", status_code=202, response_model=JobAnswer)(routes.create)
    router.get("/v1/jobs/{job_id}", response_model=JobAnswer)(routes.read)
    router.get("/v1/jobs/{job_id}/events", responses=STREAM)(routes.events)
    router.delete("/v1/jobs/{job_id}", response_model=JobAnswer)(routes.cancel)
    return router


class JobRoutes:
    """What the routes do. Remembers how the pictures of each job are to be handed out."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._outputs: dict[str, Output] = {}

    async def create(self, body: GenerationBody, request: Request) -> Response:
        """Queue a generation and return at once."""
        if body.stream is not None:
            raise FieldError("stream", "stream must be left out of a job; read its events instead")
        order = generation_order(body, self._service.limits())
        job, output = submit(self._service, request, body, order), Output.of(body)
        is_kept = self._service.jobs.find
        self._outputs = {name: one for name, one in self._outputs.items() if is_kept(name)}
        self._outputs[job.job_id] = output
        return json_response(await job_fields(job, output), 202)

    async def read(self, job_id: str) -> Response:
        """Return the state of a job and its finished pictures."""
        return json_response(await job_fields(*self._find(job_id)))

    async def events(self, job_id: str) -> Response:
        """Stream the events of a job from its first one: queued, started, step, partial, picture."""
        return job_stream(*self._find(job_id))

    async def cancel(self, job_id: str) -> Response:
        """Cancel a job: at once where it waits, after the current step where it is drawn."""
        job, output = self._find(job_id)
        self._service.supervisor.cancel(job, "its client asked")
        return json_response(await job_fields(job, output))

    def _find(self, job_id: str) -> tuple[Job, Output]:
        job = self._service.jobs.find(job_id)
        if job is None:
            raise HTTPException(404, f"there is no job {job_id[:80]!r}; it may be forgotten by now")
        return job, self._outputs.get(job_id, Output())
