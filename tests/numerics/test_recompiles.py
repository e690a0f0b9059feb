"""What recompiles a program: each setting is changed in turn, and the programs that a request really
loads are compared. Never, or exactly once."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from PIL import Image

from intonaco.backends.eager import EagerBackend
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_programs import load_flux2_programs
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.generate import generate
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.spec import make_key
from intonaco.programs.store import ArtifactStore
from intonaco.stepcache.settings import parse_settings
from tests.support.tiny_flux2 import build_tiny_flux2

FINGERPRINT = {"backend": "b", "torch": "1", "instruction_set": "avx", "compiler": "c 1"}


class WatchedBackend(EagerBackend):
    """Notes the spec of every program that is loaded."""

    def __init__(self) -> None:
        self.loaded = []

    def load(self, spec, build, folder):
        self.loaded.append(spec)
        return super().load(spec, build, folder)


@dataclass(frozen=True)
class Serving:
    """Everything that a person may set, at once; each test changes one."""

    seed: int = 5
    image_index: int = 0
    prompt: str = "a tall girl"
    num_steps: int = 4
    guidance_scale: float | None = None
    step_cache: str = "off"
    checkpoint: str = "distilled"
    references: tuple[tuple[int, int], ...] = ((80, 80),)  # 25 tokens, in a bucket of 28
    width: int = 64
    precision: str = "float32"
    group_size: int = 1
    fingerprint: dict[str, str] = field(default_factory=lambda: FINGERPRINT)

    def digests(self, checkpoints, store) -> set[str]:
        """Draw with these settings; return the digests of the single-stream groups' programs."""
        backend = WatchedBackend()
        family = load_flux2_programs(
            read_checkpoint(checkpoints[self.checkpoint]),
            ProgramLibrary(store=store, backend=backend),
            precision=self.precision,
            device=torch.device("cpu"),
            group_size=self.group_size,
        )
        request = GenerateRequest(
            prompt=self.prompt,
            seed=self.seed,
            image_index=self.image_index,
            num_steps=self.num_steps,
            guidance_scale=self.guidance_scale,
            width=self.width,
            height=64,
            references=tuple(picture(*size) for size in self.references),
        )
        step_cache = StepCacheRequest(settings=parse_settings(self.step_cache))
        generate(family, request, step_cache=step_cache)
        singles = [spec for spec in backend.loaded if spec.component.startswith("denoiser/single")]
        assert singles
        return {make_key(spec, self.fingerprint).digest for spec in singles}


def picture(width, height):
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


RECOMPILES = [
    ({"seed": 6}, 0),
    ({"image_index": 3}, 0),
    ({"prompt": "a tall girl with red hair and a blue hat"}, 0),
    ({"num_steps": 3}, 0),
    ({"step_cache": "cadence:2,window=1-1"}, 0),
    ({"step_cache": "cadence:3:2,window=1-0"}, 0),
    ({"step_cache": "online-delta:0.9,window=1-1"}, 0),
    ({"checkpoint": "other weights"}, 0),
    ({"checkpoint": "with guidance"}, 0),
    ({"checkpoint": "with guidance", "guidance_scale": 2.0}, 0),
    ({"references": ((64, 112),)}, 0),  # 28 tokens: the same bucket
    ({"references": ((112, 64),)}, 0),
    ({"references": ((128, 64),)}, 1),
    ({"references": ((64, 64), (64, 64))}, 1),
    ({"references": ()}, 1),
    ({"width": 80}, 1),
    ({"precision": "bfloat16"}, 1),
    ({"precision": "w8a16"}, 1),
    ({"precision": "w8a8"}, 1),
    ({"group_size": 2}, 1),
    ({"fingerprint": {**FINGERPRINT, "backend": "c"}}, 1),
    ({"fingerprint": {**FINGERPRINT, "torch": "2"}}, 1),
    ({"fingerprint": {**FINGERPRINT, "instruction_set": "avx512"}}, 1),
    ({"fingerprint": {**FINGERPRINT, "compiler": "c 2"}}, 1),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def checkpoints(tiny_flux2_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    return {
        "distilled": tiny_flux2_folder,
        "other weights": build_tiny_flux2(folder / "other", seed=1),
        "with guidance": build_tiny_flux2(folder / "guided", is_distilled=False),
    }


@pytest.mark.parametrize(("change", "num_recompiles"), RECOMPILES)
def test_each_setting_recompiles_a_block_group_never_or_once(
    checkpoints, store, change, num_recompiles
):
    before = Serving().digests(checkpoints, store)
    after = replace(Serving(), **change).digests(checkpoints, store)
    assert (len(before), len(after - before)) == (1, num_recompiles)
