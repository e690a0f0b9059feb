"""What a loaded model offers under a profile: sizes, lengths of films, and the facts that the API needs."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from intonaco.errors import ProfileError, UnsupportedError
from intonaco.families.film_prompt import FilmPrompts
from intonaco.families.flux2 import MAX_PICTURE_PIXELS, MIN_SIDE_PIXELS, Flux2Family
from intonaco.families.wan import MAX_FILM_PIXELS, WanFamily
from intonaco.model import Model
from intonaco.pipelines.film import DEFAULT_FRAMES_PER_S
from intonaco.serving.film_orders import frames_of
from intonaco.serving.messages import FilmFacts
from intonaco.serving.profile import ServingProfile, parse_size
from intonaco.serving.smoke import smoke_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What can be asked of a model.

    Attributes:
        sizes: (width, height) of what is tried at start, the default first.
        num_frames: lengths of films that are tried at start; (1,) of a model of pictures.
        has_all_listed: nothing but these sizes and lengths can be asked for.
        facts: fields of `ModelFacts` that depend on the family.
    """

    sizes: tuple[tuple[int, int], ...]
    num_frames: tuple[int, ...]
    has_all_listed: bool
    facts: dict[str, Any]


def make_offer(model: Model, profile: ServingProfile) -> Offer:
    """Return what `model` offers; every listed size and length is one that it can draw.

    Raises UnsupportedError for a family that cannot be served, ProfileError for a length, RequestError
    for a size that cannot be drawn.
    """
    match model.family:
        case Flux2Family() as family:
            facts, num_frames = _picture_facts(family), (1,)
        case WanFamily() as family:
            film = _film_facts(family, profile)
            facts, num_frames = _wan_facts(model, family, film), _tried_lengths(family, film)
        case family:
            raise UnsupportedError(
                f"{model.name} is a {family.name} model; the server draws with flux2 and wan models"
            )
    listed = [size for text in profile.sizes if (size := parse_size(text)) is not None]
    sizes = listed or [(model.defaults.width, model.defaults.height)]
    for size in sizes:
        for count in num_frames:
            model.family.check(smoke_request(size, count))
    return Offer(
        sizes=tuple(sizes),
        num_frames=num_frames,
        # On programs another size or length would compile within a request.
        has_all_listed=model.backend != "eager",
        facts=facts,
    )


def _picture_facts(family: Flux2Family) -> dict[str, Any]:
    return {
        "can_take_references": family.backend == "eager",
        "token_pixels": family.token_pixels,
        "min_side_pixels": MIN_SIDE_PIXELS,
        "max_pixels": MAX_PICTURE_PIXELS,
        "max_prompt_tokens": family.tokenizer.max_sequence_length,
        "can_edit": True,
        "is_distilled": family.config.is_distilled,
    }


def _wan_facts(model: Model, family: WanFamily, film: FilmFacts) -> dict[str, Any]:
    config = family.config
    token_pixels = config.pixels_per_latent * config.patch_side
    # Read here as the API process will, so that a folder without it fails at start.
    FilmPrompts(
        model.checkpoint.folder / "tokenizer", max_sequence_length=config.max_sequence_length
    )
    return {
        "can_take_references": False,
        "token_pixels": token_pixels,
        "min_side_pixels": token_pixels,
        "max_pixels": MAX_FILM_PIXELS,
        "max_prompt_tokens": config.max_sequence_length,
        "can_edit": False,
        "is_distilled": False,
        "film": film,
    }


def _film_facts(family: WanFamily, profile: ServingProfile) -> FilmFacts:
    defaults = family.defaults
    film = FilmFacts(
        default_num_frames=defaults.num_frames,
        frames_per_latent=family.config.frames_per_latent,
        frames_per_s=DEFAULT_FRAMES_PER_S,
        max_pixels=MAX_FILM_PIXELS,
    )
    listed = tuple(_listed_length(seconds, film) for seconds in profile.film_seconds)
    if not listed and family.backend != "eager":
        listed = (defaults.num_frames,)
    update = {"num_frames": listed, "default_num_frames": (*listed, defaults.num_frames)[0]}
    return film.model_copy(update=update)


def _listed_length(seconds: float, film: FilmFacts) -> int:
    num_frames = frames_of(Fraction(str(seconds)), film)
    if num_frames is None:
        unit = film.frames_per_latent / film.frames_per_s
        raise ProfileError(f"film_seconds must be multiples of {unit:g}, got {seconds:g}")
    return num_frames


def _tried_lengths(family: WanFamily, film: FilmFacts) -> tuple[int, ...]:
    """On programs every length on offer; else the shortest that goes through all of the decoder."""
    return film.num_frames if family.backend != "eager" else (1 + film.frames_per_latent,)
