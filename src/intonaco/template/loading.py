"""From a template's files to what an edit uses; the same for a folder here and for a store elsewhere.

Compares every part with the identity, so files of two templates can never be mixed unseen.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import ValidationError

from intonaco.errors import ManifestError, PackDamagedError
from intonaco.families.template_state import StateSource
from intonaco.pipelines.mask import read_mask
from intonaco.pipelines.reading import DAMAGE, picture_digest
from intonaco.template.allocation import Cut, choose_prefixes
from intonaco.template.capture import TemplateState
from intonaco.template.catalog import Template
from intonaco.template.identity import TemplateIdentity, latents_digest, mask_digest
from intonaco.template.latents_file import read_latents
from intonaco.template.manifest import FileRecord, LadderRecord, TemplateManifest
from intonaco.template.pack_reader import Place, places
from intonaco.template.reconstruct import PackSource


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateParts:
    """A template without its state.

    Attributes:
        mask_HW: the pixels that the template leaves to edits.
        tokens_YX: the tokens of which it leaves any pixel.
        clean: its clean latents, float32, on the host.
    """

    identity: TemplateIdentity
    picture: Image.Image
    mask_HW: NDArray[np.bool_]
    tokens_YX: NDArray[np.bool_]
    clean: torch.Tensor

    def with_state(
        self, source: StateSource, *, num_bytes: int, is_exact: bool = False
    ) -> TemplateState:
        """Return what `Model.edit` takes."""
        return TemplateState(
            identity=self.identity,
            picture=self.picture,
            tokens_YX=self.tokens_YX,
            clean=self.clean,
            source=source,
            is_exact=is_exact,
            num_bytes=num_bytes,
            mask_HW=self.mask_HW,
        )


def open_parts(manifest: TemplateManifest, read: Callable[[FileRecord], bytes]) -> TemplateParts:
    """Return a template's parts; `read` returns whole files, their SHA-256 already compared.

    Raises ManifestError or PackError where a part is not that of the identity.
    """
    identity = read_identity(manifest)
    size = (identity.width, identity.height)
    picture = _open_png(read(manifest.picture), manifest.picture.name, size).convert("RGB")
    mask_HW = read_mask(_open_png(read(manifest.mask), manifest.mask.name, size), size=size)
    grid = (manifest.tokens.rows, manifest.tokens.columns)
    tokens_YX = np.array(manifest.tokens.is_edited(), dtype=np.bool_).reshape(grid)
    name = manifest.latents.name
    clean = torch.from_numpy(read_latents(read(manifest.latents), name=name))
    found = {
        "picture_sha256": picture_digest(picture),
        "latents_sha256": latents_digest(clean),
        "mask_sha256": mask_digest(tokens_YX),
        "num_steps": manifest.sizes.num_steps,
    }
    wrong = [field for field, value in found.items() if getattr(identity, field) != value]
    if wrong:
        raise ManifestError(
            f"template {manifest.template_id[:16]}: its files do not belong to its identity, "
            f"{', '.join(wrong)} differ; fetch or build it again"
        )
    return TemplateParts(
        identity=identity, picture=picture, mask_HW=mask_HW, tokens_YX=tokens_YX, clean=clean
    )


def read_identity(manifest: TemplateManifest) -> TemplateIdentity:
    """Return the manifest's identity. Raises ManifestError unless its digest is the template's id."""
    try:
        identity = TemplateIdentity.model_validate_json(json.dumps(manifest.identity))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ManifestError(
            f"template {manifest.template_id[:16]}: identity.{field:.60}: {first['msg']:.120}; "
            "build it again"
        ) from None
    if identity.digest != manifest.template_id:
        raise ManifestError(
            f"template_id {manifest.template_id[:16]} is not the digest of its identity, "
            f"{identity.digest[:16]}; fetch or build it again"
        )
    return identity


def load_template(template: Template, *, budget_bytes: int | None = None) -> TemplateState:
    """Return a template of a local catalog, ready for edits.

    Args:
        budget_bytes: most bytes of basis and coefficient files to read; None = all of them.

    Raises TemplateError where a file cannot be used, RequestError for a budget below the floor.
    """
    parts = open_parts(template.manifest, template.read)
    prefixes = plan_prefixes(template.manifest, budget_bytes=budget_bytes)
    source = PackSource(template.manifest)
    for record, (step, group), num_bytes in prefixes:
        source.feed(step, group, template.read_prefix(record, num_bytes))
    return parts.with_state(source, num_bytes=sum(length for _, _, length in prefixes))


def plan_prefixes(
    manifest: TemplateManifest, *, budget_bytes: int | None
) -> list[tuple[LadderRecord, Place, int]]:
    """Return each ladder file, its place, and how many bytes of it to read."""
    files = places(manifest)
    if budget_bytes is None or budget_bytes >= sum(record.num_bytes for record, _ in files):
        return [(record, place, record.num_bytes) for record, place in files]
    cuts = [
        [Cut(num_bytes=end, error=error) for end, error in record.cuts_from_floor()]
        for record, _ in files
    ]
    lengths = choose_prefixes(cuts, budget_bytes=budget_bytes)
    return [(*file, length) for file, length in zip(files, lengths, strict=True)]


def _open_png(content: bytes, name: str, size: tuple[int, int]) -> Image.Image:
    try:
        opened = Image.open(io.BytesIO(content), formats=("PNG",))
        # Compared before the pixels are decoded: the identity's size is what may be allocated.
        if opened.size != size:
            raise ManifestError(
                f"{name} must be {size[0]} x {size[1]} pixels, as its template's identity says, got "
                f"{opened.width} x {opened.height}; fetch or build it again"
            )
        opened.load()
    except DAMAGE as error:
        raise PackDamagedError(
            f"{name} is no PNG that can be read ({' '.join(str(error).split())[:80]}); fetch it again"
        ) from None
    return opened
