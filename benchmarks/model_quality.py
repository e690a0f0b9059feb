"""How good is the shipped model? Judged by a classifier that never saw its pictures.

    python -m benchmarks.model_quality [--prompts 200] [--sheet docs/pictures]

Draws dolls of seeds that no training used, from words and with references, and edits templates
(head or clothes, by words or by reference); reads the attributes back; last line one JSON object.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image

import intonaco
from intonaco.families.request import GenerateRequest
from intonaco.quality.metrics import psnr
from models.captions import caption
from models.classifier import Classifier, classify, held_out_accuracy, load_classifier
from models.demo_assets import mask_picture
from models.encode import reference_doll
from models.figure import draw_doll, reference_picture
from models.world import REFERENCE_ATTRIBUTES, VALUES, Doll, attributes, doll_of, wear

EVALUATION_SEED = 800_000_000
STEP_COUNTS = (4, 8, 16, 30, 50)
JUDGE = Path(__file__).resolve().parents[1] / "models/judge/classifier.safetensors"
MASK_ROWS = {"head": (0, 80), "clothes": (64, 176)}


def evaluation_dolls(count: int) -> list[Doll]:
    return [doll_of(EVALUATION_SEED + i) for i in range(count)]


def share_right(
    judge: Classifier, pictures: list[Image.Image], dolls: list[Doll], names: tuple[str, ...]
) -> dict[str, float]:
    """Return the share of right readings for each named attribute."""
    readings = classify(judge, [np.asarray(p) for p in pictures])
    pairs = list(zip(readings, [attributes(d) for d in dolls], strict=True))
    return {n: round(sum(r[n] == t[n] for r, t in pairs) / len(dolls), 4) for n in names}


def mean(values: dict[str, float]) -> float:
    return round(sum(values.values()) / len(values), 4)


def from_words(
    model: intonaco.Model, dolls: list[Doll], num_steps: int | None = None
) -> list[Image.Image]:
    return [
        model.generate(caption(d), seed=i, num_steps=num_steps).image for i, d in enumerate(dolls)
    ]


def with_reference(
    model: intonaco.Model, dolls: list[Doll], kind: str
) -> tuple[list[Image.Image], list[Image.Image]]:
    """Return (references, pictures drawn with them)."""
    references = [
        reference_picture(reference_doll(d, EVALUATION_SEED + i, kind), kind)
        for i, d in enumerate(dolls)
    ]
    drawn = [
        model.generate(caption(d, reference=kind), seed=i, references=[r]).image
        for i, (d, r) in enumerate(zip(dolls, references, strict=True))
    ]
    return references, drawn


def edited(
    model: intonaco.Model, dolls: list[Doll], kind: str, *, by_reference: bool
) -> tuple[list[Image.Image], list[Doll]]:
    """Edit rendered templates; return (pictures, the dolls that they should show)."""
    pictures: list[Image.Image] = []
    wanted: list[Doll] = []
    for i, doll in enumerate(dolls):
        other = doll_of(EVALUATION_SEED + 100_000 + i)
        target = wear(doll, other, REFERENCE_ATTRIBUTES[kind])
        mask = mask_picture(doll.place, *MASK_ROWS[kind])
        references = [reference_picture(other, kind)] if by_reference else []
        prompt = caption(target, reference=kind if by_reference else None)
        edit = model.edit(draw_doll(doll), mask, prompt=prompt, references=references, seed=i)
        pictures.append(edit.image)
        wanted.append(target)
    return pictures, wanted


def edit_attributes(kind: str) -> tuple[str, ...]:
    # Skin shows on hands and legs too, which a head edit leaves alone.
    return tuple(n for n in REFERENCE_ATTRIBUTES[kind] if n != "skin")


def round_trip(model: intonaco.Model, picture: Image.Image) -> Image.Image:
    """Return the picture after the autoencoder's encode and decode."""
    family = model.editable_family()
    request = GenerateRequest(
        prompt="a doll", seed=0, width=picture.width, height=picture.height, num_steps=1
    )
    prepared = family.prepare(request, family.encode(request))
    return family.decode(prepared, family.encode_picture(picture))[0]


def autoencoder_psnr_db(model: intonaco.Model, count: int) -> tuple[float, float]:
    """Return (mean, worst) PSNR of round trips of unseen renders."""
    renders = [draw_doll(d) for d in evaluation_dolls(count)]
    values = [psnr(round_trip(model, p), p) for p in renders]
    return sum(values) / count, min(values)


def steps_table(
    model: intonaco.Model, judge: Classifier, dolls: list[Doll]
) -> dict[str, dict[str, float]]:
    """Return accuracy, and PSNR against the picture of 50 steps, per step count."""
    drawn = {n: from_words(model, dolls, n) for n in STEP_COUNTS}
    most = drawn[STEP_COUNTS[-1]]
    table: dict[str, dict[str, float]] = {}
    for n, pictures in drawn.items():
        table[str(n)] = {
            "attribute_accuracy": mean(share_right(judge, pictures, dolls, tuple(VALUES)))
        }
        if n != STEP_COUNTS[-1]:
            values = [psnr(p, m) for p, m in zip(pictures, most, strict=True)]
            table[str(n)]["psnr_to_50_db"] = round(sum(values) / len(values), 2)
    return table


def save_sheet(path: Path, rows: list[list[Image.Image]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet = Image.new("RGB", (max(len(r) for r in rows) * 192, len(rows) * 192), "white")
    for y, row in enumerate(rows):
        for x, picture in enumerate(row):
            corner = (192 - picture.width) // 2, (192 - picture.height) // 2
            sheet.paste(picture, (x * 192 + corner[0], y * 192 + corner[1]))
    sheet.save(path)


def judge_words(
    model: intonaco.Model, judge: Classifier, dolls: list[Doll], sheets: Path | None
) -> dict[str, object]:
    words = from_words(model, dolls)
    if sheets:
        renders = [draw_doll(d) for d in dolls[:16]]
        save_sheet(sheets / "from-words.png", [renders[:8], words[:8], renders[8:], words[8:16]])
    shares = share_right(judge, words, dolls, tuple(VALUES))
    return {"attribute_accuracy_text": mean(shares), "per_attribute_text": shares}


def judge_references(
    model: intonaco.Model, judge: Classifier, dolls: list[Doll], sheets: Path | None
) -> dict[str, object]:
    shares: dict[str, dict[str, float]] = {}
    rows: list[list[Image.Image]] = []
    for kind, names in REFERENCE_ATTRIBUTES.items():
        references, drawn = with_reference(model, dolls, kind)
        shares[kind] = share_right(judge, drawn, dolls, names)
        rows += [references[:8], drawn[:8]]
    if sheets:
        save_sheet(sheets / "with-references.png", rows)
    by_kind = {kind: mean(values) for kind, values in shares.items()}
    return {"attribute_accuracy_reference": mean(by_kind), "per_attribute_reference": shares}


def judge_edits(
    model: intonaco.Model, judge: Classifier, dolls: list[Doll], sheets: Path | None
) -> dict[str, object]:
    shares: dict[str, float] = {}
    rows = [[draw_doll(d) for d in dolls[:8]]]
    for kind in REFERENCE_ATTRIBUTES:
        for by_reference in (False, True):
            pictures, wanted = edited(model, dolls, kind, by_reference=by_reference)
            name = f"{kind}_{'reference' if by_reference else 'words'}"
            shares[name] = mean(share_right(judge, pictures, wanted, edit_attributes(kind)))
            rows.append(pictures[:8])
    if sheets:
        save_sheet(sheets / "edits.png", rows)
    return {"attribute_accuracy_edits": shares}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", default=None, help="checkpoint folder (default: the shipped one)"
    )
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--sheet", type=Path, default=None, help="folder for contact sheets")
    args = parser.parse_args()
    model, judge = intonaco.load(args.model), load_classifier(JUDGE)
    dolls = evaluation_dolls(args.prompts)
    result = judge_words(model, judge, dolls, args.sheet)
    print(json.dumps(result), flush=True)
    result |= judge_references(model, judge, dolls[: args.prompts // 2], args.sheet)
    print(json.dumps(result), flush=True)
    result |= judge_edits(model, judge, dolls[: args.prompts // 4], args.sheet)
    result["steps"] = steps_table(model, judge, dolls[: max(1, args.prompts // 6)])
    mean_db, worst_db = autoencoder_psnr_db(model, min(64, args.prompts))
    files = [f for f in model.checkpoint.folder.rglob("*") if f.is_file()]
    result |= {
        "autoencoder_psnr_db": round(mean_db, 2),
        "autoencoder_psnr_worst_db": round(worst_db, 2),
        "classifier_accuracy": round(held_out_accuracy(judge)["mean"], 4),
        "checkpoint_mb": round(sum(f.stat().st_size for f in files) / 1e6, 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
