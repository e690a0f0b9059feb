"""A list of prompts from a file: one a line, blank lines and lines after # left out."""

from pathlib import Path

from intonaco.errors import RequestError

MAX_PROMPTS = 10_000


def read_prompts(path: Path) -> list[str]:
    """Return the prompts in `path`. Raises RequestError where there is none that can be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise RequestError(
            f"--prompts {str(path)!r} cannot be read: {reason}; pass a text file, one prompt a line"
        ) from None
    lines = (line.strip() for line in text.splitlines())
    prompts = [line for line in lines if line and not line.startswith("#")]
    if not 1 <= len(prompts) <= MAX_PROMPTS:
        raise RequestError(
            f"--prompts {str(path)!r} must hold 1..{MAX_PROMPTS} prompts, got {len(prompts)}; write "
            "one a line"
        )
    return prompts
