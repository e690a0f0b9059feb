"""Turns a request for a film into an order, or refuses it: every rule is checked before the queue."""

import re
from fractions import Fraction

from intonaco.errors import FieldError
from intonaco.serving.bodies import VideoBody
from intonaco.serving.checks import Limits, check_given, check_size, common_fields
from intonaco.serving.messages import Draw, FilmFacts, ModelFacts

SECONDS = re.compile(r"\d{1,4}(\.\d{1,6})?", re.ASCII)


def film_order(body: VideoBody, limits: Limits) -> Draw:
    """Return what `body` asks to draw. Raises FieldError."""
    film = film_facts(limits.facts)
    width, height = check_size(body.size, limits)
    check_given(body.prompt)
    num_frames = _check_seconds(body.seconds, film, limits.profile.max_film_seconds)
    if width * height * num_frames > film.max_pixels:
        raise FieldError(
            "seconds",
            f"seconds: a film must have at most {film.max_pixels} pixels in all, got {num_frames} "
            f"frames of {width}x{height}; ask for a shorter or smaller one",
        )
    fields = common_fields(body, body.prompt, limits)
    return Draw.model_validate(
        {**fields, "task": "film", "width": width, "height": height, "num_frames": num_frames}
    )


def film_facts(facts: ModelFacts) -> FilmFacts:
    """Return what the served model says of films. Raises FieldError where it draws pictures."""
    if facts.film is None:
        raise FieldError(
            "model",
            f"model {facts.model_name!r} ({facts.family}) draws pictures, not films; ask POST "
            "/v1/images/generations or /v1/images/edits, or serve a model of films (Wan 2.1)",
        )
    return facts.film


def seconds_of(num_frames: int, film: FilmFacts) -> str:
    """Return the time from the first frame to the last, such as "5" or "0.25"."""
    return f"{(num_frames - 1) / film.frames_per_s:g}"


def frames_of(seconds: Fraction, film: FilmFacts) -> int | None:
    """Return how many frames last `seconds` from the first to the last; None where none do."""
    intervals = seconds * film.frames_per_s
    if intervals < film.frames_per_latent or intervals % film.frames_per_latent:
        return None
    return int(intervals) + 1


def _check_seconds(given: str | float | None, film: FilmFacts, most: float) -> int:
    """Return the number of frames of a film."""
    text = seconds_of(film.default_num_frames, film) if given is None else f"{given}"
    unit = Fraction(film.frames_per_latent, film.frames_per_s)
    rule = f"seconds must be a multiple of {float(unit):g}, at most {most:g}"
    if not SECONDS.fullmatch(text):
        raise FieldError("seconds", f"{rule}, such as 1, got {text[:20]!r}")
    seconds = Fraction(text)
    if seconds > Fraction(most):
        raise FieldError("seconds", f"{rule}, got {text}; ask for a shorter film")
    num_frames = frames_of(seconds, film)
    if num_frames is None:
        near = max(unit, min(round(seconds / unit), Fraction(most) // unit) * unit)
        raise FieldError("seconds", f"{rule}, got {text}; {float(near):g} works")
    if film.num_frames and num_frames not in film.num_frames:
        offered = ", ".join(seconds_of(count, film) for count in film.num_frames)
        raise FieldError("seconds", f"seconds must be one of {offered}, got {text}")
    return num_frames
