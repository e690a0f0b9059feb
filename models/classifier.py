"""The judge: reads a doll's attributes from pixels. Trained on renders of seeds no other part uses.

It never sees a picture of the model it judges. Blur and noise while training make it forgive what an
autoencoder does to edges, not what a denoiser does to attributes.
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from models.figure import draw_doll
from models.muon import build_optimizers
from models.training import Log, place, set_rate
from models.world import VALUES, attributes, doll_of

TRAINING_SEED = 900_000_000
HELD_OUT_SEED = 950_000_000
WIDTHS = (24, 48, 64, 96, 128)


class Classifier(nn.Module):
    """Pictures (B, 3, 192, 192) in -1..1 to logits, one (B, number of values) per attribute."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        previous = 3
        for width in WIDTHS:
            layers += [
                nn.Conv2d(previous, width, 3, stride=2, padding=1),
                nn.GroupNorm(8, width),
                nn.SiLU(),
            ]
            previous = width
        self.features = nn.Sequential(*layers)
        self.hidden = nn.Sequential(
            nn.Flatten(), nn.Linear(previous * 36, 256), nn.LayerNorm(256), nn.SiLU()
        )
        self.heads = nn.ModuleDict(
            {name: nn.Linear(256, len(values)) for name, values in VALUES.items()}
        )

    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        hidden = self.hidden(self.features(pictures))
        return {name: head(hidden) for name, head in self.heads.items()}


def load_classifier(path: Path) -> Classifier:
    model = Classifier()
    model.load_state_dict({k: v.float() for k, v in safetensors.torch.load_file(path).items()})
    return model.eval().requires_grad_(False)


def to_tensor(pictures: list[np.ndarray]) -> Tensor:
    """Return uint8 pictures (192, 192, 3) as float32 (B, 3, 192, 192) in -1..1."""
    stacked = torch.from_numpy(np.stack(pictures).astype(np.float32) / 127.5 - 1)
    return stacked.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


@torch.inference_mode()
def classify(model: Classifier, pictures: list[np.ndarray]) -> list[dict[str, str]]:
    """Return the attributes read from each picture."""
    readings: list[dict[str, str]] = []
    for start in range(0, len(pictures), 32):
        logits = model(to_tensor(pictures[start : start + 32]))
        best = {name: values.argmax(1).tolist() for name, values in logits.items()}
        readings += [
            {n: VALUES[n][best[n][i]] for n in VALUES}
            for i in range(len(next(iter(best.values()))))
        ]
    return readings


def targets(seeds: list[int]) -> dict[str, Tensor]:
    dolls = [attributes(doll_of(s)) for s in seeds]
    return {n: torch.tensor([values.index(d[n]) for d in dolls]) for n, values in VALUES.items()}


def augment(pictures: Tensor, rng: random.Random) -> Tensor:
    """Blur by a lot-drawn half-resolution mix and add noise."""
    blurred = nn.functional.interpolate(
        nn.functional.avg_pool2d(pictures, 2), scale_factor=2, mode="bilinear"
    )
    mixed = torch.lerp(pictures, blurred, rng.random())
    return mixed + rng.random() * 0.12 * torch.randn_like(mixed)


def training_pictures(work: Path, count: int) -> np.ndarray:
    """Return the training renders (count, 192, 192, 3) uint8, drawn once and kept in `work`."""
    path = work / f"classifier-{count}.u8"
    if not path.exists():
        drawn = np.memmap(path.with_suffix(".partial"), np.uint8, "w+", shape=(count, 192, 192, 3))
        for i in range(count):
            drawn[i] = np.asarray(draw_doll(doll_of(TRAINING_SEED + i)))
        drawn.flush()
        path.with_suffix(".partial").rename(path)
    return np.memmap(path, np.uint8, "r", shape=(count, 192, 192, 3))


def train(work: Path, num_pictures: int, num_steps: int, output: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = random.Random(0)
    pictures = training_pictures(work, num_pictures)
    model = Classifier()
    place(model, "cpu")
    matrices = [
        p
        for n, p in model.named_parameters()
        if p.ndim >= 2 and "features.0" not in n and "heads" not in n
    ]
    ids = {id(p) for p in matrices}
    optimizers = build_optimizers(
        matrices, [p for p in model.parameters() if id(p) not in ids], muon_lr=0.02, adam_lr=2e-3
    )
    log = Log(work / "classifier.jsonl", num_steps, 0)
    for step in range(num_steps):
        picked = [rng.randrange(num_pictures) for _ in range(32)]
        logits = model(augment(to_tensor([pictures[i] for i in picked]), rng))
        wanted = targets([TRAINING_SEED + i for i in picked])
        loss = sum(
            (nn.functional.cross_entropy(logits[n], wanted[n]) for n in VALUES), torch.zeros(())
        )
        loss.backward()
        set_rate(optimizers, step, num_steps, decay_from=0.4)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        log.add(loss=loss.detach(), accuracy=_accuracy(logits, wanted))
        if (step + 1) % 50 == 0:
            log.report(step + 1)
    output.parent.mkdir(parents=True, exist_ok=True)
    halves = {k: v.half().contiguous() for k, v in model.state_dict().items()}
    safetensors.torch.save_file(halves, output)
    print(json.dumps(held_out_accuracy(load_classifier(output))))


def _accuracy(logits: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    return sum((logits[n].argmax(1) == wanted[n]).float().mean().item() for n in VALUES) / len(
        VALUES
    )


def held_out_accuracy(model: Classifier, count: int = 1000) -> dict[str, float]:
    """Return the share of right readings per attribute, and their `mean`, on unseen renders."""
    seeds = range(HELD_OUT_SEED, HELD_OUT_SEED + count)
    readings = classify(model, [np.asarray(draw_doll(doll_of(s))) for s in seeds])
    truths = [attributes(doll_of(s)) for s in seeds]
    shares = {
        n: sum(r[n] == t[n] for r, t in zip(readings, truths, strict=True)) / count for n in VALUES
    }
    return {**shares, "mean": sum(shares.values()) / len(shares)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("models/runs"))
    parser.add_argument("--pictures", type=int, default=12_000)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--output", type=Path, default=Path("models/judge/classifier.safetensors"))
    args = parser.parse_args()
    train(args.work, args.pictures, args.steps, args.output)


if __name__ == "__main__":
    main()
