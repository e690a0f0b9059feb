"""The backends by name. Makes them; imports none before it is asked for."""

from __future__ import annotations

import importlib
from typing import cast

from intonaco.backends.base import Backend
from intonaco.errors import BackendUnavailableError

BACKENDS: dict[str, str] = {
    "eager": "intonaco.backends.eager:EagerBackend",
    "inductor": "intonaco.backends.inductor:InductorBackend",
    "openvino": "intonaco.backends.openvino:OpenVinoBackend",
}


def make_backend(name: str) -> Backend:
    """Return the backend called `name`.

    Raises `BackendUnavailableError` when the name is unknown or the backend is not installed.
    """
    if name not in BACKENDS:
        raise BackendUnavailableError(
            f"backend must be one of {', '.join(sorted(BACKENDS))}, got {name!r}"
        )
    module_name, _, class_name = BACKENDS[name].partition(":")
    backend = cast(Backend, getattr(importlib.import_module(module_name), class_name)())
    availability = backend.probe()
    if not availability.is_available:
        raise BackendUnavailableError(
            f"backend {name!r} cannot run here: {availability.reason}; {availability.remedy}"
        )
    return backend
