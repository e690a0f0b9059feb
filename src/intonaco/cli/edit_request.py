"""What `intonaco edit` was told, whichever way it edits: on this machine's files, or on a stream."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """One edit and what becomes of it.

    Attributes:
        mask: None = all that the template leaves to edits.
        model: the arguments of `drawing.load_model`.
        output: None = named by the seed.
    """

    mask: Path | None
    prompt: str | None
    references: list[Path]
    seed: int | None
    is_private: bool
    model: dict[str, Any]
    output: Path | None
    writes_receipt: bool
