"""The frozen request that every family reads, and the checks that need no model.

Whether a size or a prompt suits a certain model is for its family to say, in `Family.check`.
"""

import math
import operator
from dataclasses import dataclass

from PIL.Image import Image

from intonaco.errors import RequestError

MAX_SEED = 2**63 - 1
MAX_NUM_STEPS = 1000
MAX_SIDE_PIXELS = 16_384
MAX_NUM_FRAMES = 1_000
MAX_PROMPT_CHARACTERS = 20_000
MAX_NUM_REFERENCES = 10
MAX_GUIDANCE_SCALE = 100.0
_RANGES = {
    "seed": (0, MAX_SEED),
    "image_index": (0, 2**31 - 1),
    "width": (1, MAX_SIDE_PIXELS),
    "height": (1, MAX_SIDE_PIXELS),
    "num_steps": (1, MAX_NUM_STEPS),
    "num_frames": (1, MAX_NUM_FRAMES),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """What one picture (or film) is to be. Raises RequestError on a setting that breaks a rule.

    Attributes:
        prompt: what to draw.
        seed: 0 .. 2**63 - 1. With `image_index` it fixes the start noise.
        width, height: pixels.
        num_steps: denoising steps, 1 .. 1000.
        num_frames: 1 for pictures.
        image_index: which picture of a series under one seed; see `intonaco.families.noise`.
        guidance_scale: None = the family's default.
        negative_prompt: read only where guidance is on; None = the family's default.
        references: RGB pictures given to the model beside the prompt, in order.
    """

    prompt: str
    seed: int
    width: int
    height: int
    num_steps: int
    num_frames: int = 1
    image_index: int = 0
    guidance_scale: float | None = None
    negative_prompt: str | None = None
    references: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        check_text("prompt", self.prompt)
        if self.negative_prompt is not None:
            check_text("negative_prompt", self.negative_prompt)
        for setting, (low, high) in _RANGES.items():
            number = check_integer(setting, getattr(self, setting), low=low, high=high)
            # Whole numbers of any library become plain ints, which receipts can hold.
            object.__setattr__(self, setting, number)
        if self.guidance_scale is not None:
            check_number("guidance_scale", self.guidance_scale, low=0.0, high=MAX_GUIDANCE_SCALE)
        if len(self.references) > MAX_NUM_REFERENCES:
            raise RequestError(
                f"references must be at most {MAX_NUM_REFERENCES}, got {len(self.references)}; "
                "leave some out"
            )


def check_integer(setting: str, value: object, *, low: int, high: int) -> int:
    """Return `value` as int if it is a whole number in low..high; bool, float and str are not."""
    rule = f"{setting} must be a whole number in {low}..{high}"
    if isinstance(value, bool):
        raise RequestError(f"{rule}, got {value!r}; pass a number such as {low}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # that is what is being asked
    except TypeError:
        raise RequestError(
            f"{rule}, got {_shortened(value)} ({type(value).__name__}); pass an int such as {low}"
        ) from None
    if not low <= number <= high:
        nearest = min(max(number, low), high)
        raise RequestError(f"{rule}, got {_shortened(number)}; the nearest that works is {nearest}")
    return number


def check_number(setting: str, value: object, *, low: float, high: float) -> float:
    """Return `value` as float if it is a finite number in low..high; bool and str are not."""
    rule = f"{setting} must be a number in {low:g}..{high:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestError(f"{rule}, got {_shortened(value)} ({type(value).__name__})")
    if not math.isfinite(value) or not low <= value <= high:
        raise RequestError(f"{rule}, got {value!r}; choose one inside")
    return float(value)


def check_text(setting: str, value: object) -> str:
    """Return `value` if it is a string of bounded length that UTF-8 can hold."""
    if not isinstance(value, str):
        raise RequestError(f"{setting} must be a string, got {type(value).__name__}")
    if len(value) > MAX_PROMPT_CHARACTERS:
        raise RequestError(
            f"{setting} must have at most {MAX_PROMPT_CHARACTERS} characters, got {len(value)}; "
            "shorten it"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"{setting} must be valid Unicode, character {error.start} is a lone surrogate; "
            "remove it"
        ) from None
    return value


def _shortened(value: object) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."
