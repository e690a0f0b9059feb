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
UNREADY: dict[int | str, dict[str, Any]] = {503: {"description": "not ready, and why"}}
SERVED: dict[int | str, dict[str, Any]] = {401: FAULTS[401], 503: FAULTS[503]}
HIDDEN_FIELDS = {"api_key_file", "store", "host", "port", "model"}


def status_router(service: Service) -> APIRouter:
    """Return the routes that look at `service` and change nothing."""
    router = APIRouter(tags=["status"])
    routes = StatusRoutes(service)
    router.get("/healthz")(routes.health)
    router.get("/readyz", responses=UNREADY)(routes.readiness)
    router.get("/metrics", responses={**TEXT, 401: FAULTS[401]})(routes.metrics)
    router.get("/v1/models", responses=SERVED)(routes.models)
    missing = {**SERVED, 404: {"model": ErrorAnswer}}
    router.get("/v1/models/{model_id}", responses=missing)(routes.model)
    router.get("/v1/profile", responses=SERVED)(routes.profile)
    return router


class StatusRoutes:
    """What the routes do."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._supervisor = service.supervisor
        self._created = int(time.time())

    async def health(self) -> Response:
        """Say that the API process answers; that is all it says."""
        return json_response({"status": "ok"})

    async def readiness(self) -> Response:
        """Say whether a picture can be drawn now, in which state the server is, and why."""
        supervisor = self._supervisor
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

    async def metrics(self) -> Response:
        """Return all counts in Prometheus' text form."""
        text = self._service.metrics.text()
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def models(self) -> Response:
        """List the one model that is served."""
        return json_response({"object": "list", "data": [self._model_fields()]})

    async def model(self, model_id: str) -> Response:
        """Return the served model."""
        if model_id != (fields := self._model_fields())["id"]:
            raise HTTPException(
                404, f"there is no model {model_id[:80]!r}; served is {fields['id']!r}"
            )
        return json_response(fields)

    async def profile(self) -> Response:
        """Return the limits of this server and the facts of its model."""
        facts = self._supervisor.check_accepting()
        return json_response(
            {
                "version": __version__,
                "model": facts.model_dump(mode="json", exclude={"tokenizer_folder"}),
                "profile": self._service.profile.model_dump(mode="json", exclude=HIDDEN_FIELDS),
            }
        )

    def _model_fields(self) -> dict[str, Any]:
        facts = self._supervisor.check_accepting()
        return {
            "id": facts.model_name,
            "object": "model",
            "created": self._created,
            "owned_by": "intonaco",
            "digest": facts.model_digest,
        }
