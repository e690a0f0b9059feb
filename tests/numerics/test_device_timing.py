"""A device is timed by what has run, not by what was launched."""

import time
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from intonaco.device.timing import measure
from intonaco.device.upload import CudaUpload, HostUpload
from intonaco.model import load
from intonaco.template.loading import open_parts
from tests.support.fake_gpu import FakeGpu
from tests.support.studio import build_studio

BUSY_S = 0.05


@pytest.fixture(scope="module")
def studio(tiny_flux2_folder, tmp_path_factory):
    return build_studio(load(tiny_flux2_folder), tmp_path_factory.mktemp("catalog"))


@dataclass(frozen=True)
class Launching:
    """A denoiser that leaves work on the model's stream, as one on a GPU does."""

    denoiser: Any
    gpu: FakeGpu

    @property
    def module(self) -> torch.nn.Module:
        return self.denoiser.module

    def __call__(self, inputs, /) -> torch.Tensor:
        self.gpu.launch(keep_busy)
        return self.denoiser(inputs)


def keep_busy() -> None:
    until = time.perf_counter() + BUSY_S
    while time.perf_counter() < until:
        pass


def test_a_dense_step_takes_as_long_as_what_it_launched(studio):
    gpu, family = FakeGpu(), studio.model.editable_family()
    launching = replace(family, denoiser=Launching(family.denoiser, gpu))
    parts = open_parts(studio.template.manifest, studio.template.read)
    upload = CudaUpload(gpu, torch.zeros(8, dtype=torch.uint8))
    assert measure(launching, studio.template.manifest, parts, upload).dense_step_s >= BUSY_S


def test_every_shard_has_a_time(studio):
    manifest = studio.template.manifest
    parts = open_parts(manifest, studio.template.read)
    times = measure(studio.model.editable_family(), manifest, parts, HostUpload())
    assert len(times.run_s) == manifest.sizes.num_steps * len(manifest.sizes.block_groups)
    assert min(times.run_s) > 0
