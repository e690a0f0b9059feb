"""Health, readiness, metrics, and what is served."""

import time
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.responses import Response

from intonaco.serving.answers import json_response
from intonaco.serving.schemas import FAULTS, ErrorAnswer
from intonaco.serving.service import Service
from intonaco.version import __version__

TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}
HIDDEN_FIELDS = {"api_key_file", "store", "host", "port", "model"}


def status_router(service: Service) -> APIRouter:
    """Return the routes that look at `service` and change nothing."""
    router = APIRouter(tags=["status"])
    supervisor = service.supervisor
    created = int(time.time())

    @router.get("/healthz")
    async def health() -> Response:
        """Say that the API process answers; that is all it says."""
        return json_response({"status": "ok"})

    @router.get("/readyz", responses={503: {"description": "not ready, and why"}})
    async def readiness() -> Response:
        """Say whether a picture can be drawn now, in which state the server is, and why."""
        state = "draining" if supervisor.is_draining else str(supervisor.status.state)
        fields = {
            "is_ready": supervisor.is_ready,
            "state": state,
            "reason": supervisor.status.reason,
            "waiting_pictures": supervisor.num_waiting,
            "process": supervisor.replica_name,
        }
        headers = {} if supervisor.is_ready else {"retry-after": "1"}
        return json_response(fields, 200 if supervisor.is_ready else 503, headers)

    @router.get("/metrics", responses={**TEXT, 401: FAULTS[401]})
    async def metrics() -> Response:
        """Return all counts in Prometheus' text form."""
        return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    @router.get("/v1/models", responses={401: FAULTS[401], 503: FAULTS[503]})
    async def models() -> Response:
        """List the one model that is served."""
        return json_response({"object": "list", "data": [model_fields()]})

    @router.get(
        "/v1/models/{model_id}",
        responses={401: FAULTS[401], 404: {"model": ErrorAnswer}, 503: FAULTS[503]},
    )
    async def model(model_id: str) -> Response:
        """Return the served model."""
        if model_id != (fields := model_fields())["id"]:
            raise HTTPException(
                404, f"there is no model {model_id[:80]!r}; served is {fields['id']!r}"
            )
        return json_response(fields)

    @router.get("/v1/profile", responses={401: FAULTS[401], 503: FAULTS[503]})
    async def profile() -> Response:
        """Return the limits of this server and the facts of its model."""
        facts = supervisor.check_accepting().model_dump(mode="json", exclude={"tokenizer_folder"})
        limits = service.profile.model_dump(mode="json", exclude=HIDDEN_FIELDS)
        return json_response({"version": __version__, "model": facts, "profile": limits})

    def model_fields() -> dict[str, Any]:
        facts = supervisor.check_accepting()
        return {
            "id": facts.model_name,
            "object": "model",
            "created": created,
            "owned_by": "intonaco",
            "digest": facts.model_digest,
        }

    return router
