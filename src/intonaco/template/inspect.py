"""What is in a template: sizes, spectra, importance over the picture, and what a budget buys.

Reads the template's files only; no model is loaded. Large templates are sampled: some steps and
blocks stand for all.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image
from pydantic import Field, ValidationError

from intonaco.errors import ManifestError, RequestError
from intonaco.families.template_state import StateSource
from intonaco.quality.template_plots import (
    Frontier,
    Spectrum,
    draw_importance,
    page,
    plot_frontier,
    plot_sizes,
    plot_spectra,
)
from intonaco.template.catalog import Template
from intonaco.template.loading import TemplateParts, load_template, open_parts, plan_prefixes
from intonaco.template.manifest import NonNegative, Strict, TemplateManifest
from intonaco.template.pack_reader import Place, open_ladder, places
from intonaco.template.reconstruct import PackSource
from intonaco.template.strands import num_profiles, strand_of

MAX_SAMPLED_UNITS = 32
MAX_SAMPLED_BLOCKS = 8
BUDGET_RATIOS = (3, 5, 8, 15, 30, 50, 100, 150, 250)
IMPORTANCE_WIDTH_PX = 384
PARTS = ("frame", "mean", "basis", "coefficients", "framing")


class StoredImportance(Strict):
    """What stands in a template's importance file."""

    num_requests: int = Field(ge=1)
    skew: NonNegative | None
    overlap: NonNegative | None
    rows: tuple[NonNegative, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found.

    Attributes:
        facts: name -> what is known, for people.
        numbers: the same and more, for a machine.
        pictures: file name -> (caption, PNG).
    """

    title: str
    facts: Mapping[str, str]
    numbers: Mapping[str, Any]
    pictures: Mapping[str, tuple[str, bytes]]

    def to_html(self) -> str:
        """Return one page that holds everything."""
        return page(self.title, self.facts, dict(self.pictures.values()))


def inspect_template(template: Template) -> Inspection:
    """Return what is in `template`. Raises TemplateError, and UnsupportedError without matplotlib."""
    manifest = template.manifest
    parts = open_parts(manifest, template.read)
    importance = read_importance(template)
    full = load_template(template).source
    frontier = measure_frontier(template, full)
    spectra = list(_spectra(full))
    pictures = {
        "sizes.png": ("What the bytes hold", plot_sizes(measure_parts(template))),
        "spectra.png": ("Energy left after so many components", plot_spectra(spectra)),
        "frontier.png": ("What a budget buys", plot_frontier(frontier)),
    }
    if importance is not None:
        tinted = draw_importance(parts.picture, spread_rows(importance, parts.tokens_YX))
        caption = "Importance of each token; what may change is pale"
        pictures["importance.png"] = (caption, _enlarged_png(tinted))
    return Inspection(
        title=manifest.title,
        facts=_facts(manifest, parts, importance),
        numbers=_numbers(manifest, importance, frontier),
        pictures=pictures,
    )


def read_importance(template: Template) -> StoredImportance | None:
    """Return the importance that was stored with a template. Raises ManifestError."""
    record = template.manifest.importance
    if record is None:
        return None
    try:
        stored = StoredImportance.model_validate_json(template.read(record))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ManifestError(
            f"{record.name}: {first['msg']:.120}; build the template again"
        ) from None
    if len(stored.rows) != template.manifest.sizes.num_rows:
        raise ManifestError(
            f"{record.name}: must hold {template.manifest.sizes.num_rows} rows, got "
            f"{len(stored.rows)}; build the template again"
        )
    return stored


def spread_rows(importance: StoredImportance, tokens_YX: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the rows' importance on the grid of tokens, NaN where edits may change."""
    spread_YX = np.full(tokens_YX.shape, np.nan)
    spread_YX[~tokens_YX] = importance.rows
    return spread_YX


def measure_frontier(template: Template, full: StateSource) -> Frontier:
    """Return what budgets of 1/250 to 1/3 of float16 state buy, against the whole pack.

    One source is fed on from budget to budget, so nothing is decoded twice.
    """
    manifest = template.manifest
    float16_bytes = manifest.sizes.float16_bytes
    part, have = PackSource(manifest), dict[Place, int]()
    num_bytes: list[int] = []
    snr_db: list[tuple[float, float]] = []
    for ratio in sorted(BUDGET_RATIOS, reverse=True):
        try:
            planned = plan_prefixes(manifest, budget_bytes=float16_bytes // ratio)
        except RequestError:  # below the floor: there is no such point
            continue
        for record, place, length in planned:
            start = have.get(place, 0)
            if length > start:
                part.feed(*place, template.read_prefix(record, length)[start:])
                have[place] = length
        found = _snr_db(full, part)
        if sum(have.values()) in num_bytes or found is None:
            continue
        num_bytes.append(sum(have.values()))
        snr_db.append(found)
    return Frontier(
        num_bytes=num_bytes,
        key_snr_db=[round(keys, 3) for keys, _ in snr_db],
        value_snr_db=[round(values, 3) for _, values in snr_db],
        float16_bytes=float16_bytes,
    )


def measure_parts(template: Template) -> dict[str, list[int]]:
    """Return what the bytes hold: part -> bytes per block group; "framing" is heads and checksums."""
    manifest = template.manifest
    profiles = num_profiles(manifest.sizes.num_steps)
    found = {part: [0] * len(manifest.bases) for part in PARTS}
    for record, place in places(manifest):
        _, group = place
        num_payload_bytes = 0
        for increment in open_ladder(manifest, record, place).feed(template.read(record)):
            part = strand_of(increment.first_component, profiles=profiles).part
            found[part][group] += len(increment.payload)
            num_payload_bytes += len(increment.payload)
        found["framing"][group] += record.num_bytes - num_payload_bytes
    return found


def sampled(count: int, most: int) -> list[int]:
    """Return at most `most` of 0..count-1, evenly spread, first and last among them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most))})


def _snr_db(full: StateSource, part: StateSource) -> tuple[float, float] | None:
    """Return signal over error of keys and of values; None where nothing is missing."""
    signal, error = np.zeros(2), np.zeros(2)
    num_units = full.shape.num_steps * full.shape.num_blocks
    for unit in sampled(num_units, MAX_SAMPLED_UNITS):
        step, block = divmod(unit, full.shape.num_blocks)
        pairs = zip(full.read(step, block), part.read(step, block), strict=True)
        for kind, (wanted, got) in enumerate(pairs):
            signal[kind] += float(wanted.float().square().sum())
            error[kind] += float((wanted.float() - got.float()).square().sum())
    if not error.all():
        return None
    keys, values = 10 * np.log10(np.maximum(signal, np.finfo(np.float64).tiny) / error)
    return float(keys), float(values)


def _spectra(full: StateSource) -> Iterator[Spectrum]:
    for block in sampled(full.shape.num_blocks, MAX_SAMPLED_BLOCKS):
        shares: list[list[float]] = []
        for kind in range(2):
            units = [full.read(step, block)[kind].float() for step in range(full.shape.num_steps)]
            centered = np.concatenate([(unit - unit.mean(0)).numpy() for unit in units])
            energy = np.linalg.eigvalsh(centered.T.astype(np.float64) @ centered)[::-1].clip(0)
            left = energy.sum() - np.cumsum(energy)
            total = max(float(energy.sum()), np.finfo(np.float64).tiny)
            shares.append([1.0, *(float(value) / total for value in left.clip(0))])
        yield Spectrum(block=block, keys=shares[0], values=shares[1])


def _facts(
    manifest: TemplateManifest, parts: TemplateParts, importance: StoredImportance | None
) -> dict[str, str]:
    sizes, identity = manifest.sizes, parts.identity
    num_tokens = parts.tokens_YX.size
    facts = {
        "template": manifest.template_id,
        "prompt": identity.prompt,
        "picture": f"{identity.width} x {identity.height}, {num_tokens} tokens, of which "
        f"{num_tokens - sizes.num_rows} may change",
        "model": f"{identity.family}, {identity.model_digest[:16]}, {identity.dtype}",
        "steps": f"{sizes.num_steps}, noise seed {identity.seed}",
        "state": f"{sizes.num_steps} x {sizes.num_blocks} blocks x keys and values x "
        f"{sizes.num_rows} x {sizes.width}: {sizes.float16_bytes / 1e6:.2f} MB as float16",
        "coded": f"{manifest.state_bytes / 1e6:.3f} MB ({manifest.codec}), "
        f"{sizes.float16_bytes / manifest.state_bytes:.2f} times smaller",
        "floor": f"{_floor_bytes(manifest) / 1e3:.1f} kB, "
        f"{sizes.float16_bytes / max(1, _floor_bytes(manifest)):.0f} times smaller",
        "block groups": ", ".join(f"{group[0]}..{group[-1]}" for group in sizes.block_groups),
    }
    if importance is not None:
        facts["importance"] = (
            f"the top tenth of tokens holds {_percent(importance.skew)}; requests share "
            f"{_percent(importance.overlap)} of it ({importance.num_requests} requests)"
        )
    return facts


def _numbers(
    manifest: TemplateManifest, importance: StoredImportance | None, frontier: Frontier
) -> dict[str, Any]:
    return {
        "template_id": manifest.template_id,
        "title": manifest.title,
        "codec": manifest.codec,
        "float16_bytes": manifest.sizes.float16_bytes,
        "state_bytes": manifest.state_bytes,
        "floor_bytes": _floor_bytes(manifest),
        "basis_bytes": [record.num_bytes for record in manifest.bases],
        "coefficient_bytes": [[one.num_bytes for one in row] for row in manifest.coefficients],
        "importance": None
        if importance is None
        else {"skew": importance.skew, "overlap": importance.overlap},
        "frontier": {
            "num_bytes": list(frontier.num_bytes),
            "key_snr_db": list(frontier.key_snr_db),
            "value_snr_db": list(frontier.value_snr_db),
        },
    }


def _floor_bytes(manifest: TemplateManifest) -> int:
    rows = (manifest.bases, *manifest.coefficients)
    return sum(record.floor_bytes for row in rows for record in row)


def _percent(share: float | None) -> str:
    return "an unknown part" if share is None else f"{share:.0%}"


def _enlarged_png(picture: Image) -> bytes:
    times = max(1, round(IMPORTANCE_WIDTH_PX / picture.width))
    encoded = io.BytesIO()
    picture.resize((picture.width * times, picture.height * times), 0).save(encoded, format="PNG")
    return encoded.getvalue()
