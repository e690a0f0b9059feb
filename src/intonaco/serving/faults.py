"""Errors as OpenAI's clients read them: a status, and one JSON object that says what happened."""

from dataclasses import dataclass

from intonaco.errors import (
    DeadlineError,
    FieldError,
    GenerationCancelled,
    InputError,
    ModelProcessError,
    NotReadyError,
    QueueFullError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFault:
    """One refusal or failure.

    Attributes:
        kind: OpenAI's `type` of the error.
        field: the field of the request that is at fault, where there is one.
    """

    status: int
    kind: str
    code: str
    message: str
    field: str | None = None
    retry_after_s: int | None = None

    def body(self) -> dict[str, object]:
        """Return the JSON object of the answer."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.field,
                "code": self.code,
            }
        }

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}


def bad_request(
    message: str, *, field: str | None = None, code: str = "invalid_value"
) -> HttpFault:
    """Return the fault of a request that cannot be done as it is."""
    return HttpFault(
        status=400, kind="invalid_request_error", code=code, message=message, field=field
    )


def fault_of(error: BaseException) -> HttpFault:
    """Return what a client is told of `error`."""
    message = str(error)
    match error:
        case FieldError():
            return bad_request(message, field=error.field)
        case InputError():
            return bad_request(message)
        case QueueFullError():
            return HttpFault(
                status=429,
                kind="rate_limit_error",
                code="queue_full",
                message=message,
                retry_after_s=error.retry_after_s,
            )
        case NotReadyError():
            return HttpFault(
                status=503,
                kind="server_error",
                code="not_ready",
                message=message,
                retry_after_s=error.retry_after_s,
            )
        case _:
            return _failure_of(error, message)


def _failure_of(error: BaseException, message: str) -> HttpFault:
    match error:
        case GenerationCancelled():
            return HttpFault(status=409, kind="conflict_error", code="cancelled", message=message)
        case DeadlineError():
            return HttpFault(status=504, kind="server_error", code="out_of_time", message=message)
        case ModelProcessError():
            return HttpFault(status=502, kind="server_error", code="model_process", message=message)
        case _:
            return HttpFault(
                status=500,
                kind="server_error",
                code="fault",
                message=f"a fault of the server ({type(error).__name__}); its log says more",
            )
