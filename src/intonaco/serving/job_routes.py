"""Jobs: draw without waiting for the answer; follow, read and cancel by id."""

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

MISSING = {404: {"model": ErrorAnswer, "description": "no such job, or it was forgotten"}}


def job_router(service: Service) -> APIRouter:
    """Return the job routes of `service`. The id of any running request works too."""
    router = APIRouter(tags=["jobs"], responses={**FAULTS, **MISSING})
    outputs: dict[str, Output] = {}

    def find(job_id: str) -> tuple[Job, Output]:
        job = service.jobs.find(job_id)
        if job is None:
            raise HTTPException(404, f"there is no job {job_id[:80]!r}; it may be forgotten by now")
        return job, outputs.get(job_id, Output())

    @router.post("/v1/jobs", status_code=202, response_model=JobAnswer)
    async def create(body: GenerationBody, request: Request) -> Response:
        """Queue a generation and return at once."""
        if body.stream is not None:
            raise FieldError("stream", "stream must be left out of a job; read its events instead")
        job = submit(service, request, body, generation_order(body, service.limits()))
        for job_id in [job_id for job_id in outputs if service.jobs.find(job_id) is None]:
            del outputs[job_id]
        outputs[job.job_id] = Output.of(body)
        return json_response(await job_fields(job, outputs[job.job_id]), 202)

    @router.get("/v1/jobs/{job_id}", response_model=JobAnswer)
    async def read(job_id: str) -> Response:
        """Return the state of a job and its finished pictures."""
        return json_response(await job_fields(*find(job_id)))

    @router.get("/v1/jobs/{job_id}/events", responses=STREAM)
    async def events(job_id: str) -> Response:
        """Stream the events of a job from its first one: queued, started, step, partial, picture."""
        return job_stream(*find(job_id))

    @router.delete("/v1/jobs/{job_id}", response_model=JobAnswer)
    async def cancel(job_id: str) -> Response:
        """Cancel a job: at once where it waits, after the current step where it is drawn."""
        job, output = find(job_id)
        service.supervisor.cancel(job, "its client asked")
        return json_response(await job_fields(job, output))

    return router
