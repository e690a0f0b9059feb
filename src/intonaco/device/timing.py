"""How long this device takes: measured once per template, so that need times can be predicted.

A call to a GPU returns once it is launched, so every time here is taken after what was launched has run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from intonaco.device.cores import Cores
from intonaco.device.upload import Upload
from intonaco.families.base import EditableFamily, Prepared
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.families.template_state import StateShape
from intonaco.template.loading import TemplateParts
from intonaco.template.manifest import TemplateManifest

NUM_RUNS = 2
# Until it is measured: keys and values of a shard from bytes that are there.
FIRST_RECONSTRUCT_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTimes:
    """Seconds on this device.

    Attributes:
        run_s, reconstruct_s: per shard, in their order.
        encode_s: from the request to the first step.
        decode_bytes_per_s: of coded bytes, None where it is not known.
    """

    run_s: tuple[float, ...]
    reconstruct_s: tuple[float, ...]
    dense_step_s: float
    encode_s: float
    decode_bytes_per_s: float | None = None


@dataclass(slots=True)
class _Stopwatch:
    """A source of zeros that notes when each block is read.

    They lie on the model's device, where the state of an edit is brought beside the run.
    """

    shape: StateShape
    device: torch.device
    upload: Upload
    reads: list[float] = field(default_factory=list[float])

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        self.reads.append(_now_s(self.upload))
        zeros = torch.zeros(self.shape.num_rows, self.shape.width, device=self.device)
        return zeros, zeros


def measure(
    family: EditableFamily, manifest: TemplateManifest, parts: TemplateParts, upload: Upload
) -> DeviceTimes:
    """Run one step dense and one on a state of zeros, and time them; the quicker of two runs.

    Both on the cores of a streamed step. Dense steps get the last core, too, but a stream is not to be
    given up, before anything of it has come, for what that gains.
    """
    identity = parts.identity
    request = GenerateRequest(
        prompt=identity.prompt,
        seed=identity.seed,
        width=identity.width,
        height=identity.height,
        num_steps=identity.num_steps,
    )
    with Cores():
        began_at = _now_s(upload)
        prepared = family.prepare(request, family.encode(request))
        encode_s = _now_s(upload) - began_at
        groups = _time_sparse_step(family, prepared, manifest, parts, upload)
        dense = min(
            _seconds(lambda: family.denoise(prepared, prepared.latents, 0), upload)
            for _ in range(NUM_RUNS)
        )
    num_steps = manifest.sizes.num_steps
    return DeviceTimes(
        run_s=groups * num_steps,
        reconstruct_s=(FIRST_RECONSTRUCT_S,) * (len(groups) * num_steps),
        dense_step_s=dense,
        encode_s=encode_s,
    )


def _time_sparse_step(
    family: EditableFamily,
    prepared: Prepared,
    manifest: TemplateManifest,
    parts: TemplateParts,
    upload: Upload,
) -> tuple[float, ...]:
    """Return the run time of each block group in a step on a state of zeros; the quicker of two."""
    sizes = manifest.sizes
    shape = StateShape(
        num_steps=sizes.num_steps,
        num_blocks=sizes.num_blocks,
        num_rows=sizes.num_rows,
        width=sizes.width,
    )
    watch = _Stopwatch(shape, family.device, upload)
    sparse = state_runs(family).reusing(watch, parts.tokens_YX.reshape(-1))
    return min((_time_groups(sparse, prepared, watch, manifest) for _ in range(NUM_RUNS)), key=sum)


def _time_groups(
    sparse: EditableFamily, prepared: Prepared, watch: _Stopwatch, manifest: TemplateManifest
) -> tuple[float, ...]:
    """Return the run time of each block group; what surrounds the blocks falls to the first, last."""
    watch.reads.clear()
    began_at = _now_s(watch.upload)
    sparse.denoise(prepared, prepared.latents, 0)
    ended_at = _now_s(watch.upload)
    firsts = [blocks[0] for blocks in manifest.sizes.block_groups]
    edges = [began_at, *(watch.reads[block] for block in firsts[1:]), ended_at]
    return tuple(after - before for before, after in pairwise(edges))


def _seconds(run: Callable[[], object], upload: Upload) -> float:
    began_at = _now_s(upload)
    run()
    return _now_s(upload) - began_at


def _now_s(upload: Upload) -> float:
    upload.wait_run()
    return time.perf_counter()
