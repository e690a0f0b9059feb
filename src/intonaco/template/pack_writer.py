"""A coded template as files in memory, with the manifest that names them.

Each file's name ends in the hash of its content, so a file never changes under its name. What is
written where: docs/pack-format.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from intonaco.template.coded import MAX_PLANES, CodedTemplate, Ladder
from intonaco.template.ladder_file import TAG_BYTES, LadderHeader, write_ladder
from intonaco.template.latents_file import write_latents
from intonaco.template.manifest import (
    FileRecord,
    LadderRecord,
    StateSizes,
    TemplateManifest,
    TokenMask,
    file_record,
)
from intonaco.template.pack_format import Role

ERROR_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateParts:
    """What a template is besides its coded state.

    Attributes:
        template_id: digest of `identity`.
        picture_png, mask_png: encoded pictures; the mask is white where pixels may change.
        latents: clean, (1, tokens, channels) or of another three sizes.
        is_edited_YX: the tokens that edits may change.
        made_by: names and versions of what built it.
        importance_json: what profiling found, see `intonaco.template.inspect`; None = not kept.
    """

    template_id: str
    identity: Mapping[str, JsonValue]
    title: str
    picture_png: bytes
    mask_png: bytes
    latents: NDArray[np.float32]
    is_edited_YX: NDArray[np.bool_]
    made_by: Mapping[str, str]
    importance_json: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTemplate:
    """A manifest and every file that it names."""

    manifest: TemplateManifest
    contents: Mapping[str, bytes]


def pack_template(coded: CodedTemplate, parts: TemplateParts) -> PackedTemplate:
    """Return `coded` and `parts` as files. Raises PackBoundsError for what no reader would take."""
    contents: dict[str, bytes] = {}
    bases = tuple(
        _add_ladder(contents, coded, ladder, parts.template_id, step=None, group=group)
        for group, ladder in enumerate(coded.bases)
    )
    coefficients = tuple(
        tuple(
            _add_ladder(contents, coded, ladder, parts.template_id, step=step, group=group)
            for group, ladder in enumerate(ladders)
        )
        for step, ladders in enumerate(coded.coefficients)
    )
    manifest = TemplateManifest(
        schema_version=1,
        template_id=parts.template_id,
        identity=dict(parts.identity),
        title=parts.title,
        codec=coded.codec,
        sizes=StateSizes(
            num_steps=coded.num_steps,
            num_rows=coded.num_rows,
            width=coded.width,
            block_groups=coded.block_groups,
        ),
        tokens=_token_mask(parts.is_edited_YX),
        picture=_add(contents, "picture", parts.picture_png, "png"),
        mask=_add(contents, "mask", parts.mask_png, "png"),
        latents=_add(contents, "latents", write_latents(parts.latents), "itn"),
        importance=(
            None
            if parts.importance_json is None
            else _add(contents, "importance", parts.importance_json, "json")
        ),
        bases=bases,
        coefficients=coefficients,
        made_by=dict(parts.made_by),
    )
    return PackedTemplate(manifest=manifest, contents=contents)


def ladder_header(
    *,
    template_id: str,
    codec: str,
    num_rows: int,
    width: int,
    blocks: Sequence[int],
    step: int | None,
    max_planes: int = MAX_PLANES,
) -> LadderHeader:
    """Return the header of a basis file (`step` None) or of a coefficient file."""
    return LadderHeader(
        role=Role.BASIS if step is None else Role.COEFFICIENTS,
        template_tag=bytes.fromhex(template_id)[:TAG_BYTES],
        codec=codec,
        step=0 if step is None else step,
        first_block=blocks[0],
        num_blocks=len(blocks),
        num_rows=num_rows,
        width=width,
        max_planes=max_planes,
    )


def _add_ladder(
    contents: dict[str, bytes],
    coded: CodedTemplate,
    ladder: Ladder,
    template_id: str,
    *,
    step: int | None,
    group: int,
) -> LadderRecord:
    header = ladder_header(
        template_id=template_id,
        codec=coded.codec,
        num_rows=coded.num_rows,
        width=coded.width,
        blocks=coded.block_groups[group],
        step=step,
        max_planes=max((one.first_plane + one.num_planes for one in ladder.increments), default=1),
    )
    written = write_ladder(header, ladder)
    name = f"basis-{group}" if step is None else f"coefficients-{step}-{group}"
    record = _add(contents, name, written.content, "itn")
    return LadderRecord(
        **record.model_dump(),
        start_error=_rounded(written.start_error),
        ends=written.ends,
        errors=tuple(_rounded(error) for error in written.errors),
        floor_bytes=written.floor_bytes,
    )


def _add(contents: dict[str, bytes], name: str, content: bytes, suffix: str) -> FileRecord:
    record = file_record(name, content, suffix)
    contents[record.name] = content
    return record


def _rounded(error: float) -> float:
    """Return `error` in few digits; rounding keeps the order of errors."""
    return float(f"{error:.{ERROR_DIGITS}g}")


def _token_mask(is_edited_YX: NDArray[np.bool_]) -> TokenMask:
    flat = [bool(edited) for edited in is_edited_YX.reshape(-1)]
    return TokenMask.of(flat, columns=is_edited_YX.shape[1])
