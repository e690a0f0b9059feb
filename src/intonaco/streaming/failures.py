"""An error of one process as a message to another, and back."""

from dataclasses import dataclass
from typing import Literal

from intonaco import errors
from intonaco.errors import IntonacoError


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """What was asked for cannot be done. `error` is the name of a class of `intonaco.errors`."""

    kind: Literal["failed"] = "failed"
    error: str
    message: str

    @classmethod
    def of(cls, error: IntonacoError) -> "Failed":
        return cls(error=type(error).__name__, message=str(error))

    def as_error(self, otherwise: type[IntonacoError]) -> IntonacoError:
        """Return the error; an `otherwise` where its class is not one of ours."""
        kind = getattr(errors, self.error, otherwise)
        is_ours = isinstance(kind, type) and issubclass(kind, IntonacoError)
        return (kind if is_ours else otherwise)(self.message)
