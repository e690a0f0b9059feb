"""The demo's templates: each picture that an edit of the plan changes, prepared into a catalog."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from intonaco.cli.terminal import Terminal

if TYPE_CHECKING:
    from PIL.Image import Image

    from intonaco.cli.demo_plan import DemoPlan, DrawnEdit
    from intonaco.model import Model
    from intonaco.template.build import BuildEvent, BuildRequest
    from intonaco.template.catalog import Template

# Fewer than a provider would spend: each costs a dense edit and one with gradients.
NUM_PROFILING = 2
BYTES_PER_MEGABYTE = 1_000_000

TemplateKey = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Studio:
    """What preparing and editing share: where to say what is done, the model, the demo's files."""

    terminal: Terminal
    model: "Model"
    assets: Path
    catalog: Path


def streamable(plan: "DemoPlan") -> "tuple[DrawnEdit, ...]":
    """Return the edits of pictures that the plan draws: of those it is known what they show."""
    return tuple(edit for edit in plan.edits if edit.template_picture is not None)


def key_of(edit: "DrawnEdit") -> TemplateKey:
    """Return which template `edit` needs: a picture of the plan and the mask it is prepared for."""
    return (edit.template_picture or "", edit.mask_file)


def build_all(
    studio: Studio, plan: "DemoPlan", pictures: "Mapping[str, Image]"
) -> "dict[TemplateKey, Template]":
    """Prepare every template that the plan's edits need; `pictures` are the drawn ones, by name."""
    prompts = {picture.name: picture for picture in plan.pictures}
    keys = dict.fromkeys(key_of(edit) for edit in streamable(plan))
    templates: dict[TemplateKey, Template] = {}
    for number, (name, mask_file) in enumerate(keys, start=1):
        drawn = prompts[name]
        request = _request(
            studio, pictures[name], mask_file, prompt=drawn.prompt, seed=drawn.seed, title=name
        )
        text = f"preparing template {number} of {len(keys)}"
        template = _build(studio, request, text)
        templates[name, mask_file] = template
        sizes = template.manifest.sizes
        studio.terminal.say(
            f"template {name}: {sizes.float16_bytes / BYTES_PER_MEGABYTE:.2f} MB of state, stored in "
            f"{template.manifest.state_bytes / BYTES_PER_MEGABYTE:.2f} MB"
        )
    return templates


def _request(
    studio: Studio, picture: "Image", mask_file: str, *, prompt: str, seed: int, title: str
) -> "BuildRequest":
    from intonaco.model import open_mask
    from intonaco.template.build import BuildRequest

    return BuildRequest(
        picture=picture,
        mask_HW=open_mask(studio.assets / mask_file, size=picture.size),
        prompt=prompt,
        seed=seed,
        num_steps=studio.model.defaults.num_steps,
        title=title,
        num_profiling=NUM_PROFILING,
    )


def _build(studio: Studio, request: "BuildRequest", text: str) -> "Template":
    from intonaco.template.build import build_template

    with studio.terminal.counting(text) as show:

        def report(event: "BuildEvent") -> None:
            show(event.done, event.total, f"{text}: {event.phase}")

        return build_template(
            studio.model.editable_family(),
            request,
            studio.catalog,
            model_digest=studio.model.digest,
            progress=report,
        )
