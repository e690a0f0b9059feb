"""What the streaming benchmark assumes of devices, links, codes and quality, in one place.

Sizes and times of a phone are the SAKURA paper's. Quality curves are measured on the shipped model,
by `benchmarks/template_quality.py`; applied to timing at FLUX.2-klein's size they are a model of
quality, not a measurement of klein.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from intonaco.streaming.methods import FixedCode
from intonaco.streaming.pack_table import FIRST_STEPS_FLOOR_RATIO, FLOOR_RATIO
from intonaco.streaming.quality_curve import (
    QualityCurve,
    StateSize,
    basis_share_of,
    table_from_curve,
)
from intonaco.streaming.settings import EditPlan
from intonaco.streaming.traces import SYNTHETIC_LINKS, Trace, read_trace, synthesize_trace
from intonaco.template.baselines.uniform import STORED_LEVELS

ROOT = Path(__file__).resolve().parents[1]
QUALITY_FILE = ROOT / "docs" / "data" / "template_quality.json"
STEPS_FILE = ROOT / "docs" / "data" / "streaming_steps.json"
DEEPER_FILE = ROOT / "docs" / "data" / "streaming_quality.json"
TRACES = ROOT.parent / "shared" / "traces"
TRACE_FILES = {
    "5g": "5g-mmwave-walk-45-first603.csv",
    "mix": "4g5g-mix-walk-run168.csv",
    "lte": "lte-walk-lumos-50220.csv",
    "wifi": "wifi5-campus-600.csv",
}
NUM_LEVELS = 48
# Below this an edit is not worth its name; the floor is the least state that keeps it.
FLOOR_DB = 30.0
# A shard that runs with the step before's state: no curve was measured; counted as badly as this.
BORROWED_PSNR_DB = 20.0
ENCODE_S = 0.15
ROUND_TRIP_S = 0.04

# First trials on an earlier paper-doll model, dB over the mask; CacheGen's levels are assumed.
FIRST_TRIALS: dict[str, dict[float, float]] = {
    "best": {5: 72.7, 15: 61.7, 50: 50.5, 150: 35.0},
    "rectangle": {5: 62.3, 15: 52.1, 50: 35.5, 150: 25.0},
    "ladder_shared_basis_sensitivity": {5: 71.0, 15: 60.0, 50: 49.0, 150: 33.0},
    "weighted8": {5: 58.0, 15: 45.0, 50: 30.0, 150: 22.0},
    "intq": {1.97: 75.0, 3.7: 49.2, 7.0: 23.2},
    "cachegen": {3.4: 45.0, 4.6: 35.0, 6.0: 26.0, 12.0: 24.0, 40.0: 20.0},
    "cachegen_stored_levels": {3.4: 45.0, 4.6: 35.0, 6.0: 26.0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A model on a device: how much state, how long shards run.

    Attributes:
        edit_s: run time of all shards of a sparse edit. dense_s: of the dense one.
        reconstruct_s: of one shard, from its last byte to keys and values.
        encode_s: of the words, before the first shard runs.
        decode_bytes_per_s: of a decoder beside the run; None = as fast as bytes come.
        smallest_slice_bytes: the least that a request asks for.
        link_scale: by which a trace is multiplied so that the paper's ratio of state bytes to link
            rate and run time holds for a smaller model; 1 at the paper's size.
    """

    name: str
    fp16_bytes: float
    num_rows: int
    width: int
    num_steps: int
    groups: tuple[int, ...]
    edit_s: float
    dense_s: float
    reconstruct_s: float
    link_scale: float = 1.0
    encode_s: float = ENCODE_S
    decode_bytes_per_s: float | None = None
    smallest_slice_bytes: int = 16_384

    @property
    def basis_share(self) -> float:
        """Which part of the bytes is basis, where steps have coefficients of their own."""
        return basis_share_of(num_rows=self.num_rows, width=self.width, num_steps=self.num_steps)

    def plan(
        self, curve: QualityCurve, *, shared: float, first_steps_floor_ratio: float | None = None
    ) -> EditPlan:
        """Return the edit's plan; `shared` is the part of the bytes that all steps share."""
        size = StateSize(
            fp16_bytes=self.fp16_bytes,
            num_steps=self.num_steps,
            groups=self.groups,
            basis_share=shared,
        )
        table = table_from_curve(
            curve,
            size,
            floor_ratio=floor_ratio(curve),
            num_levels=NUM_LEVELS,
            first_steps_floor_ratio=first_steps_floor_ratio,
        )
        per_block = self.edit_s / self.num_steps / sum(self.groups)
        num_shards = table.num_shards
        return EditPlan(
            table=table,
            run_s=[
                per_block * self.groups[index % len(self.groups)] for index in range(num_shards)
            ],
            reconstruct_s=[self.reconstruct_s] * num_shards,
            dense_step_s=self.dense_s / self.num_steps,
            decode_bytes_per_s=self.decode_bytes_per_s,
        )

    def our_plan(self, curve: QualityCurve) -> EditPlan:
        """Return the plan of our code: one file per block group, which all steps share."""
        return self.plan(curve, shared=1.0, first_steps_floor_ratio=FIRST_STEPS_FLOOR_RATIO)


def fold_shares(shares: tuple[float, ...] | None, num_steps: int) -> tuple[float, ...] | None:
    """Return shares of `num_steps` steps from those of a multiple of steps, added up in order."""
    if shares is None:
        return None
    count, rest = divmod(len(shares), num_steps)
    if rest:
        raise SystemExit(f"shares of {len(shares)} steps do not fold into {num_steps} steps")
    return tuple(sum(shares[step * count : (step + 1) * count]) for step in range(num_steps))


def floor_ratio(curve: QualityCurve) -> float:
    """Return the strongest measured compression that keeps `FLOOR_DB`, or the weakest measured.

    Never stronger than the floor of a template on a store.
    """
    kept = [
        ratio
        for ratio, psnr_db in zip(curve.ratios, curve.psnr_db, strict=True)
        if psnr_db >= FLOOR_DB
    ]
    return min(FLOOR_RATIO, max(kept, default=curve.ratios[0]))


KLEIN_BYTES = 1.46 * 2**30
KLEIN = Device(
    name="FLUX.2-klein-4B at 512 x 512, 10 % mask, on the paper's phone",
    fp16_bytes=KLEIN_BYTES,
    num_rows=1178,
    width=3072,
    num_steps=4,
    groups=(5, 5, 5, 5, 5),
    edit_s=2.26,
    dense_s=13.0,
    reconstruct_s=0.02,
)


def shipped_device(edit_s: float, dense_s: float) -> Device:
    """Return the shipped model at a 10 % mask, on a link scaled to its state and run time.

    Encoding and reconstruction are klein's, scaled to the run time; a round trip is not.
    """
    num_rows = 130  # of 144 image tokens
    fp16_bytes = 2 * 2 * num_rows * 256 * 8 * 8
    return Device(
        name="the shipped model, 10 % mask",
        fp16_bytes=fp16_bytes,
        num_rows=num_rows,
        width=256,
        num_steps=8,
        groups=(2, 3, 3),
        edit_s=edit_s,
        dense_s=dense_s,
        reconstruct_s=KLEIN.reconstruct_s * edit_s / KLEIN.edit_s,
        encode_s=ENCODE_S * edit_s / KLEIN.edit_s,
        smallest_slice_bytes=2048,
        link_scale=(fp16_bytes / edit_s) / (KLEIN.fp16_bytes / KLEIN.edit_s),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Curves by method, and where they come from.

    Attributes:
        step_shares: measured part of an edit's error per step of the shipped model, at equal
            compression; None = equal.
    """

    source: str
    curves: dict[str, QualityCurve]
    codes: dict[str, tuple[FixedCode, ...]]
    step_shares: tuple[float, ...] | None = None

    def shares_of(self, device: Device) -> tuple[float, ...] | None:
        """Return the parts for a device's steps, each of which stands for several measured ones."""
        return fold_shares(self.step_shares, device.num_steps)


def load_quality(path: Path = QUALITY_FILE, deeper: Path = DEEPER_FILE) -> Quality:
    """Return measured curves, or those of first trials where no measurement is at hand.

    `path` holds the last line of `benchmarks/template_quality.py`; `deeper`, of
    `benchmarks/streaming_quality.py`, extends our own curve to less than 1 / 150 of the state.
    """
    if not path.is_file():
        return _quality("first trials on an earlier model; CacheGen assumed", FIRST_TRIALS)
    record = json.loads(path.read_text().strip().splitlines()[-1])
    points = {name: _points(record[name]["points"]) for name in FIRST_TRIALS if name in record}
    points["cachegen_stored_levels"] = {
        ratio: points["cachegen"][ratio] for ratio in sorted(points["cachegen"])[:STORED_LEVELS]
    }
    source = f"benchmarks/template_quality.py, {record['num_edits']} edits"
    if deeper.is_file():
        more = json.loads(deeper.read_text())
        last = max(points["best"])
        points["best"] |= {
            float(key.rstrip("x")): value
            for key, value in more["mask_psnr_db"].items()
            if float(key.rstrip("x")) > 1.1 * last and value < points["best"][last]
        }
        source += "; below, benchmarks/streaming_quality.py"
    shares = None
    if STEPS_FILE.is_file():
        shares = tuple(json.loads(STEPS_FILE.read_text())["error_share_by_step"])
    return replace(_quality(source, points), step_shares=shares)


def _points(record: dict[str, dict[str, float]]) -> dict[float, float]:
    """Return PSNR by ratio, without points that are both larger and worse than another."""
    points = sorted((one["ratio"], one["mask_psnr_db"]) for one in record.values())
    return {
        ratio: psnr_db
        for index, (ratio, psnr_db) in enumerate(points)
        if all(psnr_db > later for _, later in points[index + 1 :])
    }


def _quality(source: str, points: dict[str, dict[float, float]]) -> Quality:
    curves: dict[str, QualityCurve] = {}
    codes: dict[str, tuple[FixedCode, ...]] = {}
    for name, of_ratio in points.items():
        ratios = sorted(of_ratio)
        if name == "intq" or name.startswith("cachegen"):
            codes[name] = tuple(
                FixedCode(name=f"{name} {ratio:g}x", ratio=ratio, psnr_db=of_ratio[ratio])
                for ratio in ratios
            )
        else:
            curves[name] = QualityCurve(
                ratios=tuple(ratios), psnr_db=tuple(of_ratio[ratio] for ratio in ratios)
            )
    return Quality(source=source, curves=curves, codes=codes)


def traces_for(names: tuple[str, ...], *, is_synthetic: bool) -> dict[str, Trace]:
    """Return the links of a benchmark by short name; ends it where none was recorded here."""
    if is_synthetic:
        return {
            name: synthesize_trace(SYNTHETIC_LINKS[name], num_seconds=600, seed=1, name=name)
            for name in names
        }
    found = load_traces(names)
    if not found:
        raise SystemExit("no recorded traces beside this checkout; use --synthetic")
    return found


def load_traces(names: tuple[str, ...]) -> dict[str, Trace]:
    """Return the recorded traces that are at hand, by short name."""
    return {
        name: read_trace(TRACES / TRACE_FILES[name])
        for name in names
        if (TRACES / TRACE_FILES[name]).is_file()
    }
