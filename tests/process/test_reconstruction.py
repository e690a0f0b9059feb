"""Reconstruction in processes of its own: the same numbers, and what happens when one dies."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import torch

from intonaco.device.reconstruction import Reconstruction, SharedFiles
from intonaco.device.reconstruction_process import rate_of_files
from intonaco.errors import PackError, StreamingError
from intonaco.streaming.shared_files import Layout, Lengths, make_shared_file, map_shared
from intonaco.template.manifest import canonical_json
from intonaco.template.pack_reader import places
from intonaco.template.reconstruct import PackSource
from tests.support.templates import readable_packed

PACKED = readable_packed()
MANIFEST = PACKED.manifest
NUM_GROUPS = len(MANIFEST.bases)
FAR = 60.0


class Files:
    """Shared memory as the network's process leaves it once everything has come."""

    def __init__(self) -> None:
        self.descriptor = make_shared_file()
        content = canonical_json(MANIFEST)
        self.layout = Layout.of(MANIFEST, num_manifest_bytes=len(content))
        self.memory = map_shared(self.descriptor, self.layout.num_bytes, is_writer=True)
        self.memory[: len(content)] = content
        self.lengths = Lengths(self.memory, self.layout)
        for index, (record, _) in enumerate(places(MANIFEST)):
            start = self.layout.offsets[record.name]
            self.memory[start : start + record.num_bytes] = PACKED.contents[record.name]
            self.lengths.raise_to(index, record.num_bytes)
        self.shared = SharedFiles(
            descriptor=self.descriptor,
            num_manifest_bytes=len(content),
            num_bytes=self.layout.num_bytes,
        )


@pytest.fixture
def files() -> Iterator[Files]:
    files = Files()
    yield files
    os.close(files.descriptor)


def make(reconstruction: Reconstruction, shard: int, *, turn_in_s: float = FAR):
    step, group = divmod(shard, NUM_GROUPS)
    return reconstruction.make(
        shard,
        coefficient_bytes=MANIFEST.coefficients[step][group].num_bytes,
        basis_bytes=MANIFEST.bases[group].num_bytes,
        coefficient_floor_bytes=MANIFEST.coefficients[step][group].floor_bytes,
        basis_floor_bytes=MANIFEST.bases[group].floor_bytes,
        turn_at=time.monotonic() + turn_in_s,
    )


def expected(step: int, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = PackSource(MANIFEST)
    for record, place in places(MANIFEST):
        source.feed(*place, PACKED.contents[record.name])
    return source.read(step, block)


@pytest.mark.parametrize("num_workers", [1, 3])
def test_any_number_of_processes_makes_the_same_keys_and_values(files, num_workers):
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=num_workers)
    try:
        reconstruction.begin()
        for shard in range(MANIFEST.sizes.num_steps * NUM_GROUPS):
            made = make(reconstruction, shard)
            step, group = divmod(shard, NUM_GROUPS)
            assert tuple(made.blocks) == MANIFEST.sizes.block_groups[group]
            for block, units in made.blocks.items():
                for unit, reference in zip(units, expected(step, block), strict=True):
                    assert torch.equal(unit, reference)
            reconstruction.keep(group)
    finally:
        reconstruction.close()


def test_how_fast_they_will_decode_is_known_before_a_byte_was_decoded(files):
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=2)
    try:
        assert reconstruction.bytes_per_s is None
        reconstruction.wait_ready()
        assert reconstruction.bytes_per_s > 0
        assert make(reconstruction, 0, turn_in_s=-1.0).bytes_per_s > 0
    finally:
        reconstruction.close()


def test_of_processes_that_share_the_units_the_slowest_counts(files):
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=3)
    try:
        reconstruction.wait_ready()
        # The third has no unit to decode, as where there are more processes than units.
        for worker, rate in zip(reconstruction._workers, (3e6, 2e6, None), strict=True):
            worker.bytes_per_s = rate
        assert reconstruction.bytes_per_s == 2e6
    finally:
        reconstruction.close()


def test_a_process_that_decodes_a_part_of_the_units_is_through_with_files_so_much_sooner():
    assert rate_of_files(1e6, 5, num_all=20) == 4e6


def test_a_shard_whose_turn_has_passed_is_made_from_its_floors(files):
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=1)
    try:
        reconstruction.wait_ready()
        made = make(reconstruction, 0, turn_in_s=-1.0)
    finally:
        reconstruction.close()
    record, basis = MANIFEST.coefficients[0][0], MANIFEST.bases[0]
    assert (made.coefficient_bytes, made.basis_bytes) == (record.floor_bytes, basis.floor_bytes)


def test_a_shard_stays_as_it_is_while_the_next_one_of_its_group_is_made(files):
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=1)
    try:
        reconstruction.begin()
        first = make(reconstruction, 0)
        reconstruction.keep(0)
        block = MANIFEST.sizes.block_groups[0][0]
        before = first.blocks[block][0].clone()
        second = make(reconstruction, NUM_GROUPS)
        assert not torch.equal(second.blocks[block][0], before)
        assert torch.equal(first.blocks[block][0], before)
    finally:
        reconstruction.close()


def damage(files: Files, record, at: int) -> None:
    files.memory[files.layout.offsets[record.name] + at] ^= 0xFF


def test_a_shard_with_a_damaged_floor_is_an_error_and_others_are_made(files):
    record = MANIFEST.bases[0]
    damage(files, record, record.floor_bytes - 1)
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=1)
    try:
        reconstruction.wait_ready()
        with pytest.raises(PackError, match=re.escape(record.name)):
            make(reconstruction, 0)
        assert make(reconstruction, 1).trouble == ""
    finally:
        reconstruction.close()


def test_damage_behind_the_floor_costs_what_lies_behind_it_and_is_told(files):
    record = MANIFEST.bases[0]
    damage(files, record, record.num_bytes - 1)
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=1)
    try:
        reconstruction.wait_ready()
        made = make(reconstruction, 0)
    finally:
        reconstruction.close()
    assert record.name in made.trouble
    assert record.floor_bytes <= made.basis_bytes < record.num_bytes


def test_a_process_that_was_killed_is_an_error_and_is_started_again(files):
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=2)
    try:
        reconstruction.begin()
        os.kill(reconstruction.process_ids[1], signal.SIGKILL)
        with pytest.raises(StreamingError, match="reconstruction process has ended"):
            make(reconstruction, 0)
        reconstruction.begin()
        assert torch.equal(make(reconstruction, 0).blocks[0][0], expected(0, 0)[0])
    finally:
        reconstruction.close()


def test_closing_leaves_no_process(files):
    reconstruction = Reconstruction(MANIFEST, files.shared, num_workers=2)
    reconstruction.wait_ready()
    numbers = reconstruction.process_ids
    reconstruction.close()
    reconstruction.close()
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_the_process_imports_no_torch():
    code = (
        "import sys, intonaco.device.reconstruction_process;"
        "print([name for name in ('torch', 'diffusers', 'transformers') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip() == "[]"
