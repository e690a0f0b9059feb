"""The application of the API process: all routes, and every error as one JSON object. No torch."""

from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from intonaco.errors import IntonacoError
from intonaco.serving.answers import json_response
from intonaco.serving.faults import HttpFault, fault_of
from intonaco.serving.forms import field_error
from intonaco.serving.guard import Application, Guard
from intonaco.serving.image_routes import image_router
from intonaco.serving.job_routes import job_router
from intonaco.serving.service import Service
from intonaco.serving.status_routes import status_router
from intonaco.serving.video_routes import video_router
from intonaco.version import __version__


def make_app(service: Service) -> FastAPI:
    """Return the application of `service`, without the guard around it."""
    app = FastAPI(
        title="intonaco",
        version=__version__,
        description="Pictures from words, reference pictures and masks; films from words. OpenAI's clients work.",
        # Their pages load scripts from other sites.
        docs_url=None,
        redoc_url=None,
    )
    for make_router in (image_router, video_router, job_router, status_router):
        app.include_router(make_router(service))

    @app.exception_handler(IntonacoError)
    async def on_error(request: Request, error: Exception) -> Response:
        return _answer(fault_of(error))

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: Exception) -> Response:
        found = cast("RequestValidationError", error).errors()
        return _answer(fault_of(field_error(cast("list[Any]", found))))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: Exception) -> Response:
        known = cast("HTTPException", error)
        fault = HttpFault(
            status=known.status_code,
            kind="invalid_request_error",
            code=f"http_{known.status_code}",
            message=str(known.detail),
        )
        return json_response(fault.body(), fault.status, dict(known.headers or {}))

    return app


def make_guarded_app(service: Service) -> Application:
    """Return what the HTTP server runs."""
    return Guard(cast("Application", make_app(service)), service)


def _answer(fault: HttpFault) -> Response:
    return json_response(fault.body(), fault.status, fault.headers())
