"""Rules that every request is held against, whatever it asks to draw. All are checked before the queue.

Needs the facts that the model process told, no torch and no model process that is awake.
"""

import secrets
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from intonaco.errors import FieldError, InputError, PromptTooLongError
from intonaco.families.film_prompt import FilmPrompts
from intonaco.families.light_tokenizer import read_light_tokenizer
from intonaco.families.prompt import ChatTokenizer
from intonaco.families.request import check_text
from intonaco.serving.bodies import Common
from intonaco.serving.messages import ModelFacts
from intonaco.serving.profile import ServingProfile, parse_size

DRAWN_SEED_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request is held against: the operator's profile and the model's facts."""

    profile: ServingProfile
    facts: ModelFacts


def common_fields(body: Common, prompt: str, limits: Limits) -> dict[str, object]:
    """Return the fields of an order that all requests have. Raises FieldError."""
    facts, profile = limits.facts, limits.profile
    if body.model not in (None, facts.model_name):
        raise FieldError("model", f"model must be {facts.model_name!r}, got {body.model!r}")
    num_steps = facts.default_num_steps if body.steps is None else body.steps
    check_range("steps", num_steps, 1, profile.max_steps)
    for field, text in (("prompt", prompt), ("negative_prompt", body.negative_prompt)):
        if text is not None:
            _check_prompt(field, text, limits)
    if facts.is_distilled:
        _refuse_guidance(body)
    step_cache = profile.step_caches[0] if body.step_cache is None else body.step_cache
    if step_cache not in profile.step_caches:
        raise FieldError(
            "step_cache",
            f"step_cache must be one of {', '.join(profile.step_caches)}, got {step_cache!r}",
        )
    return {
        "draw_id": "",
        "prompt": prompt,
        "seed": secrets.randbits(DRAWN_SEED_BITS) if body.seed is None else body.seed,
        "num_steps": num_steps,
        "guidance_scale": body.guidance_scale,
        "negative_prompt": body.negative_prompt,
        "step_cache": step_cache,
        "is_private": bool(body.private),
    }


def check_given(prompt: str) -> None:
    """Refuse a prompt that says nothing. Raises FieldError."""
    if not prompt.strip():
        raise FieldError("prompt", "prompt must say what to draw, got nothing")


def check_size(text: str | None, limits: Limits, *, field: str = "size") -> tuple[int, int]:
    """Return (width, height) of a size that can be drawn; None and "auto" are the model's default.

    Raises FieldError.
    """
    facts, profile = limits.facts, limits.profile
    if text in (None, "auto"):
        text = f"{facts.default_width}x{facts.default_height}"
    size = parse_size(text)
    if size is None:
        raise FieldError(field, f"{field} must be WIDTHxHEIGHT, such as 192x192, got {text[:20]!r}")
    if facts.sizes and text not in facts.sizes:
        raise FieldError(field, f"{field} must be one of {', '.join(facts.sizes)}, got {text}")
    most = min(profile.max_pixels, facts.max_pixels)
    if size[0] * size[1] > most:
        raise FieldError(field, f"{field} must have at most {most} pixels, got {text}")
    multiple, least = facts.token_pixels, facts.min_side_pixels
    if any(side % multiple or side < least for side in size):
        near = "x".join(str(max(least, round(side / multiple) * multiple)) for side in size)
        raise FieldError(
            field,
            f"{field} must have sides that are multiples of {multiple} and at least {least}, got "
            f"{text}; {near} works",
        )
    return size


def check_range(field: str, value: int, low: int, high: int) -> None:
    """Raise FieldError unless `value` is in low..high."""
    if not low <= value <= high:
        raise FieldError(field, f"{field} must be in {low}..{high}, got {value}")


def _refuse_guidance(body: Common) -> None:
    for field in ("guidance_scale", "negative_prompt"):
        if getattr(body, field) is not None:
            raise FieldError(field, f"{field} must be left out: the model is distilled")


def _check_prompt(field: str, text: str, limits: Limits) -> None:
    longest = limits.profile.max_prompt_characters
    if len(text) > longest:
        raise FieldError(
            field, f"{field} must have at most {longest} characters, got {len(text)}; shorten it"
        )
    try:
        check_text(field, text)
        _prompts(limits.facts).count_tokens(text)
    except PromptTooLongError as error:
        raise FieldError(field, str(error).replace("prompt", field, 1)) from None
    except InputError as error:
        raise FieldError(field, str(error)) from None


def _prompts(facts: ModelFacts) -> ChatTokenizer | FilmPrompts:
    """Return what counts the tokens of a prompt as the model does."""
    folder, longest = facts.tokenizer_folder, facts.max_prompt_tokens
    return _chat_prompts(folder, longest) if facts.film is None else _film_prompts(folder, longest)


# Read once: a restarted model process tells the same folder again.
@lru_cache(maxsize=1)
def _chat_prompts(folder: str, max_tokens: int) -> ChatTokenizer:
    return ChatTokenizer(read_light_tokenizer(Path(folder)), max_sequence_length=max_tokens)


@lru_cache(maxsize=1)
def _film_prompts(folder: str, max_tokens: int) -> FilmPrompts:
    return FilmPrompts(Path(folder), max_sequence_length=max_tokens)
