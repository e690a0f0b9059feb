"""OpenAI's video routes: films are jobs, asked for, watched, fetched and deleted by id."""

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from intonaco.serving.answers import json_response, timings
from intonaco.serving.bodies import VideoBody
from intonaco.serving.faults import fault_of
from intonaco.serving.film_orders import film_facts, film_order, seconds_of
from intonaco.serving.forms import read_video_body
from intonaco.serving.image_routes import submit
from intonaco.serving.jobs import Job
from intonaco.serving.messages import ModelFacts
from intonaco.serving.pixels import encode
from intonaco.serving.ranges import file_response
from intonaco.serving.schemas import FAULTS, ErrorAnswer, VideoAnswer, VideoDeleted, VideoList
from intonaco.serving.service import Service

MISSING: dict[int | str, dict[str, Any]] = {
    404: {"model": ErrorAnswer, "description": "no such film, or it was forgotten, or it failed"}
}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"video/mp4": {}, "image/webp": {}}},
    206: {"description": "the range that was asked for"},
    409: {"model": ErrorAnswer, "description": "the film is not done yet"},
    416: {"description": "the film has no such bytes"},
}


def video_router(service: Service) -> APIRouter:
    """Return the video routes of `service`."""
    router = APIRouter(tags=["videos"], responses=FAULTS)
    routes = VideoRoutes(service)
    all_films, film = "/v1/videos", "/v1/videos/{video_id}"
    router.post(all_films, response_model=VideoAnswer, openapi_extra=_schema())(routes.create)
    router.get(all_films, response_model=VideoList)(routes.list_all)
    router.get(film, response_model=VideoAnswer, responses=MISSING)(routes.read)
    router.get(f"{film}/content", responses={**MISSING, **FILE})(routes.content)
    router.delete(film, response_model=VideoDeleted, responses=MISSING)(routes.delete)
    return router


class VideoRoutes:
    """What the routes do. A film is known by the id of the request that asked for it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def create(self, request: Request) -> Response:
        """Queue a film and return at once."""
        limits = self._service.limits()
        body = await read_video_body(request)
        job = submit(self._service, request, body, film_order(body, limits))
        return json_response(video_fields(job, limits.facts))

    async def list_all(
        self,
        after: Annotated[str | None, Query(max_length=80)] = None,
        limit: Annotated[int, Query(ge=0, le=100)] = 20,
        order: Literal["asc", "desc"] = "desc",
    ) -> Response:
        """List the films that the server keeps, whoever asked for them."""
        facts = self._facts()
        film_facts(facts)
        films = self._service.jobs.films()
        if order == "desc":
            films.reverse()
        if after is not None:
            ids = [job.job_id for job in films]
            films = films[ids.index(self._find(after).job_id) + 1 :]
        page = films[:limit]
        return json_response(
            {
                "object": "list",
                "data": [video_fields(job, facts) for job in page],
                "first_id": page[0].job_id if page else None,
                "last_id": page[-1].job_id if page else None,
                "has_more": len(films) > len(page),
            }
        )

    async def read(self, video_id: str) -> Response:
        """Return the state of a film."""
        return json_response(video_fields(self._find(video_id), self._facts()))

    async def content(
        self, request: Request, video_id: str, variant: Literal["video", "thumbnail"] = "video"
    ) -> Response:
        """Return a finished film as MP4, or its first frame as WebP; ranges are kept."""
        job = self._find(video_id)
        if not job.is_finished:
            raise HTTPException(
                409,
                f"video {job.job_id} is {job.status} ({job.percent} %); its content is there once GET "
                f"/v1/videos/{job.job_id} says completed",
            )
        if job.error is not None:
            message = fault_of(job.error).message
            raise HTTPException(404, f"video {job.job_id} failed and has no content: {message}")
        (drawn,) = job.pictures
        if variant == "video":
            return file_response(request, drawn.film, media_type="video/mp4", name=job.job_id)
        picture = await asyncio.to_thread(
            encode, drawn.raw, output_format="webp", compression=None, receipt=""
        )
        return file_response(
            request, picture, media_type="image/webp", name=f"{job.job_id}-thumbnail"
        )

    async def delete(self, video_id: str) -> Response:
        """Forget a film; one that waits or is drawn is cancelled."""
        job = self._find(video_id)
        self._service.supervisor.cancel(job, "its client deleted it")
        self._service.jobs.forget(job)
        return json_response({"id": job.job_id, "object": "video.deleted", "deleted": True})

    def _find(self, video_id: str) -> Job:
        job = self._service.jobs.find(video_id)
        if job is None or job.order.task != "film":
            raise HTTPException(
                404, f"there is no video {video_id[:80]!r}; it may be forgotten by now"
            )
        return job

    def _facts(self) -> ModelFacts:
        """Return the facts of the model, of a server that failed since too. Raises NotReadyError."""
        return self._service.supervisor.facts or self._service.supervisor.check_accepting()


def video_fields(job: Job, facts: ModelFacts) -> dict[str, object]:
    """Return a film as OpenAI's video object, with seed, receipt and timings beside its fields."""
    order = job.order
    drawn = job.pictures[0] if job.pictures else None
    completed_at = job.completed_at if job.status == "completed" else None
    return {
        "id": job.job_id,
        "object": "video",
        "status": job.status,
        "progress": job.percent,
        "created_at": int(job.created_at),
        "completed_at": None if completed_at is None else int(completed_at),
        "expires_at": None,
        "error": None if job.error is None else fault_of(job.error).body()["error"],
        "model": facts.model_name,
        "prompt": None if order.is_private else order.prompt,
        "remixed_from_video_id": None,
        "seconds": seconds_of(order.num_frames, film_facts(facts)),
        "size": f"{order.width}x{order.height}",
        "seed": order.seed,
        "receipt": None if drawn is None else json.loads(drawn.receipt),
        "timings": None if drawn is None else timings(job, drawn),
    }


def _schema() -> dict[str, Any]:
    schema = VideoBody.model_json_schema()
    content = {kind: {"schema": schema} for kind in ("application/json", "multipart/form-data")}
    return {"requestBody": {"required": True, "content": content}}
