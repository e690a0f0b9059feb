"""Which programs the options of `intonaco compile` and `intonaco programs why` ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from intonaco.cli import options
from intonaco.cli.streamed_edit import is_url
from intonaco.errors import RequestError, TemplateIdentityError, TemplateMissingError

if TYPE_CHECKING:
    from intonaco.cli.terminal import Terminal
    from intonaco.families.picture_shape import PictureShape
    from intonaco.model import Model
    from intonaco.programs.compiler import CompileEvent
    from intonaco.programs.library import ProgramLibrary
    from intonaco.programs.spec import ProgramSpec
    from intonaco.programs.store import ArtifactStore
    from intonaco.template.manifest import TemplateManifest

TemplateLists = dict[str, "list[TemplateManifest]"]
"""What each --template found, by its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of one command, as given; None = the model's default."""

    model: str | None
    dtype: str
    backend: str
    store: Path | None
    size: str | None
    frames: str | None
    reference_sizes: Sequence[str]
    templates: Sequence[str]
    is_edit: bool
    has_probe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The programs that are needed, and what serves them.

    Attributes:
        specs: in the order of use; one that two shapes need may stand there twice.
        templates: whose edits they are for; none where pictures were asked for.
    """

    library: ProgramLibrary
    specs: list[ProgramSpec]
    templates: list[TemplateManifest]

    def describe_templates(self) -> list[dict[str, object]]:
        """Return what of each template its programs depend on, as fields for a machine."""
        return [
            {
                "template_id": manifest.template_id,
                "width": manifest.identity["width"],
                "height": manifest.identity["height"],
                "num_tokens": manifest.tokens.rows * manifest.tokens.columns,
                "num_edited_tokens": manifest.tokens.is_edited().count(True),
            }
            for manifest in self.templates
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """The options that say what is drawn, parsed."""

    size: tuple[int, int] | None
    num_frames: int | None
    reference_sizes: tuple[tuple[int, int], ...]
    is_edit: bool

    @classmethod
    def parse(cls, asked: Asked) -> _Drawn:
        references = (
            options.parse_size(text, option="--reference-size") for text in asked.reference_sizes
        )
        return cls(
            size=options.parse_size(asked.size),
            num_frames=options.parse_whole_number(asked.frames, option="--frames", example=81),
            reference_sizes=tuple(size for size in references if size is not None),
            is_edit=asked.is_edit,
        )

    def shape(self, model: Model) -> PictureShape:
        """Return the shape of pictures, with the model's defaults."""
        from intonaco.families.picture_shape import PictureShape

        defaults = model.defaults
        return PictureShape(
            size=self.size or (defaults.width, defaults.height),
            num_frames=self.num_frames or defaults.num_frames,
            reference_sizes=self.reference_sizes,
            is_edit=self.is_edit,
        )

    def shape_of_edits(self, manifest: TemplateManifest) -> PictureShape:
        """Return the shape of edits on a template."""
        from intonaco.families.picture_shape import PictureShape
        from intonaco.template.loading import read_identity

        identity = read_identity(manifest)
        return PictureShape(
            size=(identity.width, identity.height),
            reference_sizes=self.reference_sizes,
            is_edit=self.is_edit,
            num_edited_tokens=manifest.tokens.is_edited().count(True),
        )


def find_needs(terminal: Terminal, asked: Asked) -> Needs:
    """Load the model and return every program that is needed, whatever the family.

    Raises IntonacoError for an option, a template or a model that cannot be used.
    """
    _check(asked)
    drawn = _Drawn.parse(asked)
    with terminal.waiting("reading the model"):
        # First: a template that is not there shows in no time, a model is read in seconds.
        lists = {text: _manifests(text) for text in asked.templates}
        model = _load(asked)
        templates, left_out = _of_this_model(model, lists)
        shapes = [drawn.shape_of_edits(one) for one in templates] or [drawn.shape(model)]
        library = _library(model)
        specs = _specs(model, library, list(dict.fromkeys(shapes)), has_probe=asked.has_probe)
    for refusal in left_out:
        terminal.warn(f"left out: {refusal}")
    return Needs(library=library, specs=specs, templates=templates)


def open_artifacts(folder: Path | None) -> ArtifactStore:
    """Return the store of programs in `folder`; None = the user's."""
    from intonaco.programs.store import ArtifactStore, default_store_folder

    return ArtifactStore(default_store_folder() if folder is None else folder)


def _check(asked: Asked) -> None:
    """Raise RequestError for options that mean nothing here or together."""
    if asked.backend == "eager":
        raise RequestError(
            "--backend must be inductor or openvino, got 'eager', which compiles nothing"
        )
    given = {"--size": asked.size, "--frames": asked.frames}
    for option, text in given.items():
        if asked.templates and text is not None:
            raise RequestError(
                f"{option} cannot be given with --template, got {text!r}: a template has its own; "
                "leave it out, or compile for it in a run of its own"
            )


def _load(asked: Asked) -> Model:
    from intonaco.model import load

    return load(
        asked.model,
        dtype=asked.dtype,
        backend=asked.backend,
        store=open_artifacts(asked.store).root,
        compile_progress=_show,
    )


def _library(model: Model) -> ProgramLibrary:
    # On programs every family has its denoiser on them.
    family: Any = model.family
    return family.denoiser.library


def _show(event: CompileEvent) -> None:
    """Print one line of progress to stderr; what was found already needs none."""
    if event.phase == "found":
        return
    place = f"{event.index + 1} of {event.num_programs}"
    elapsed = f" in {event.elapsed_s:.1f} s" if event.elapsed_s else ""
    reason = f" ({event.reason})" if event.reason else ""
    typer.echo(f"{event.phase} {place}: {event.component}{elapsed}{reason}", err=True)


def _specs(
    model: Model, library: ProgramLibrary, shapes: Sequence[PictureShape], *, has_probe: bool
) -> list[ProgramSpec]:
    from intonaco.families.registry import needed_specs
    from intonaco.pipelines.probes import probe_specs

    specs = [spec for shape in shapes for spec in needed_specs(model.family, shape)]
    if has_probe:
        probes = (probe_specs(model.family, library, shape) for shape in shapes)
        specs += [spec for found in probes for spec in found]
    return specs


def _manifests(text: str) -> list[TemplateManifest]:
    """Return the template at `text`, or all of the catalog there: a folder, or a URL of a store."""
    if is_url(text):
        from intonaco.streaming.listing import read_manifests

        return read_manifests(text)
    from intonaco.template.catalog import open_templates

    return [template.manifest for template in open_templates(Path(text))]


def _of_this_model(model: Model, lists: TemplateLists) -> tuple[list[TemplateManifest], list[str]]:
    """Return the templates that `model` can edit, and why it cannot edit the others of a catalog.

    Raises TemplateIdentityError or TemplateMissingError for a text that names none.
    """
    kept: dict[str, TemplateManifest] = {}
    left_out: list[str] = []
    for text, manifests in lists.items():
        if not manifests:
            raise TemplateMissingError(
                f"--template {text} lists no template; build one into it with 'intonaco template build'"
            )
        refusals = [_refusal(manifest, model) for manifest in manifests]
        if all(refusals):
            raise TemplateIdentityError(refusals[0])
        left_out += filter(None, refusals)
        fitting = zip(manifests, refusals, strict=True)
        kept |= {one.template_id: one for one, refusal in fitting if not refusal}
    return list(kept.values()), left_out


def _refusal(manifest: TemplateManifest, model: Model) -> str:
    """Return why `model` cannot edit the template, or an empty text."""
    from intonaco.template.identity import dtype_name, require_same
    from intonaco.template.loading import read_identity

    family = model.editable_family()
    found = {
        "family": family.name,
        "dtype": dtype_name(family),
        "model_digest": model.digest,
    }
    try:
        require_same(read_identity(manifest), found)
    except TemplateIdentityError as error:
        return f"template {manifest.template_id[:16]}: {error}"
    return ""
