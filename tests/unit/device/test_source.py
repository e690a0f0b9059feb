"""A streamed source over a GPU that is as late as it may be: which numbers the model's work sees."""

import mmap
import time
from functools import partial

import numpy as np
import pytest
import torch

from intonaco.device.reconstruction import Shard
from intonaco.device.settling import Settler, ShardTimes
from intonaco.device.slots import SlotLayout, Slots
from intonaco.device.source import StreamedSource
from intonaco.device.upload import CudaUpload, HostUpload
from intonaco.errors import StateGoneError
from intonaco.streaming.late import LateSettings
from intonaco.streaming.protocol import Started
from tests.support.fake_gpu import FakeGpu
from tests.support.templates import readable_packed

MANIFEST = readable_packed().manifest
GROUPS = MANIFEST.sizes.block_groups
NUM_SHARDS = MANIFEST.sizes.num_steps * len(GROUPS)


class FilledReconstruction:
    """Writes a shard's number, from 1, where reconstruction would write its keys and values."""

    def __init__(self, calls: list[str]) -> None:
        layout = SlotLayout(sizes=MANIFEST.sizes)
        self._layout = layout
        self._memory = mmap.mmap(-1, layout.num_bytes)
        self._slots = Slots(layout)
        self._calls = calls
        self.turns: list[float] = []

    @property
    def memory(self) -> torch.Tensor:
        return torch.frombuffer(self._memory, dtype=torch.uint8)

    def begin(self) -> None: ...

    def rest(self) -> None: ...

    def keep(self, group: int) -> None:
        self._slots.keep(group)

    def make(self, shard, *, coefficient_bytes, basis_bytes, turn_at, **floors) -> Shard:
        self._calls.append("make")
        self.turns.append(turn_at)
        group = shard % len(GROUPS)
        place = self._layout.shard(self._memory, self._slots.free, group)
        place[:] = shard + 1
        units = torch.from_numpy(place)
        return Shard(
            blocks={
                block: (units[index, 0], units[index, 1])
                for index, block in enumerate(GROUPS[group])
            },
            coefficient_bytes=coefficient_bytes,
            basis_bytes=basis_bytes,
            seconds=0.0,
            bytes_per_s=None,
            trouble="",
        )


class Link:
    """Everything has arrived; what `words` names is borrowed or dense all the same."""

    manifest = MANIFEST

    def __init__(self, calls: list[str], words: dict[int, str] | None = None) -> None:
        self.reconstruction = FilledReconstruction(calls)
        self.words = words or {}

    def start(self, shard: int, *, within_s: float) -> Started:
        word = self.words.get(shard, "run")
        return Started(
            shard=shard, word=word, level=0, coefficient_bytes=10, basis_bytes=10, is_cut=False
        )

    def begun(self, shard: int, *, has_borrowed: bool) -> None: ...

    def ended(self) -> None: ...

    def stop(self) -> None: ...


def source_on(link: Link, upload, clock=time.monotonic) -> StreamedSource:
    return StreamedSource(
        link,
        run_s=(0.0,) * NUM_SHARDS,
        reconstruct_s=(0.0,) * NUM_SHARDS,
        start_at=0.0,
        late=LateSettings(),
        upload=upload,
        clock=clock,
    )


def numbers_seen(link: Link, upload, launch) -> list[tuple[float, ...]]:
    """Read every block as a model would; return what its work sees, per shard."""
    seen: dict[int, set[float]] = {}

    def look(shard, state) -> None:
        seen.setdefault(shard, set()).update(
            float(value) for rows in state for value in np.unique(rows.numpy())
        )

    with source_on(link, upload) as source:
        for shard in range(NUM_SHARDS):
            step, group = divmod(shard, len(GROUPS))
            for block in GROUPS[group]:
                launch(partial(look, shard, source.read(step, block)))
        source.finish()
    return [tuple(seen[shard]) for shard in sorted(seen)]


@pytest.mark.parametrize("can_lock", [True, False])
def test_on_a_gpu_that_is_late_every_shard_is_its_own(can_lock):
    gpu = FakeGpu(can_lock=can_lock)
    link = Link(gpu.calls)
    upload = CudaUpload(gpu, link.reconstruction.memory)
    assert numbers_seen(link, upload, gpu.launch) == [(1.0,), (2.0,), (3.0,), (4.0,)]


def test_on_a_gpu_that_is_late_a_borrowed_shard_is_that_of_the_step_before():
    gpu = FakeGpu()
    link = Link(gpu.calls, {3: "borrow"})
    upload = CudaUpload(gpu, link.reconstruction.memory)
    assert numbers_seen(link, upload, gpu.launch) == [(1.0,), (2.0,), (3.0,), (2.0,)]


def test_on_the_host_every_shard_is_its_own():
    link = Link([])
    assert numbers_seen(link, HostUpload(), lambda work: work()) == [(1.0,), (2.0,), (3.0,), (4.0,)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_sources_own_thread_turns_the_edit_dense_at_once():
    class Faulty(Link):
        def start(self, shard: int, *, within_s: float) -> Started:
            raise ZeroDivisionError

    late = LateSettings(give_up_s=1000.0)
    source = StreamedSource(
        Faulty([]),
        run_s=(0.0,) * NUM_SHARDS,
        reconstruct_s=(0.0,) * NUM_SHARDS,
        start_at=0.0,
        late=late,
        upload=HostUpload(),
    )
    with source, pytest.raises(StateGoneError):
        source.read(0, GROUPS[0][0])
    assert source.dense_from_step == 0
    assert any("not settled" in trouble for trouble in source.troubles)


@pytest.fixture
def two_cores(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr("intonaco.device.cores.num_cores", lambda: 2)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_cores")
def test_the_model_has_all_cores_once_the_last_shard_has_run():
    with source_on(Link([]), HostUpload()) as source:
        for shard in range(NUM_SHARDS):
            step, group = divmod(shard, len(GROUPS))
            source.read(step, GROUPS[group][0])
            assert torch.get_num_threads() == 1
        source.finish()
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_cores")
def test_the_model_has_all_cores_for_steps_that_run_dense():
    with source_on(Link([], {2: "dense"}), HostUpload()) as source:
        source.read(0, GROUPS[0][0])
        source.read(0, GROUPS[1][0])
        with pytest.raises(StateGoneError):
            source.read(1, GROUPS[0][0])
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_cores")
def test_an_edit_that_ends_early_gives_the_cores_back():
    with source_on(Link([]), HostUpload()) as source:
        source.read(0, GROUPS[0][0])
    assert torch.get_num_threads() == 2


def test_two_edits_in_a_row_share_what_was_locked():
    gpu = FakeGpu()
    link = Link(gpu.calls)
    upload = CudaUpload(gpu, link.reconstruction.memory)
    first = numbers_seen(link, upload, gpu.launch)
    assert numbers_seen(link, upload, gpu.launch) == first
    assert gpu.calls.count("lock") == 1


def test_a_gpu_without_memory_turns_the_edit_dense_and_says_why():
    gpu = FakeGpu(num_bytes=0)
    link = Link(gpu.calls)
    with source_on(link, CudaUpload(gpu, link.reconstruction.memory)) as source:
        with pytest.raises(StateGoneError):
            source.read(0, 0)
        assert "CUDA out of memory" in source.troubles[0]


def settler_on(gpu: FakeGpu) -> tuple[Settler, Link]:
    link = Link(gpu.calls)
    times = ShardTimes(start_at=7.0, run_s=[2.0] * NUM_SHARDS, reconstruct_s=[0.5] * NUM_SHARDS)
    upload = CudaUpload(gpu, link.reconstruction.memory)
    return Settler(link, times=times, upload=upload, within_s=1.0), link


def test_no_slot_is_written_before_the_copies_so_far_have_ended():
    gpu = FakeGpu()
    settler, _ = settler_on(gpu)
    settler.settle(0)
    gpu.calls.clear()
    settler.settle(1)
    assert gpu.calls[:2] == ["synchronize", "make"]


def test_what_is_borrowed_is_what_the_same_blocks_ran_last():
    settler, link = settler_on(FakeGpu())
    settler.settle(0)
    last = settler.settle(0)
    link.words[0] = "borrow"
    assert settler.settle(0).uploaded is last.uploaded


def test_decoding_ends_early_enough_for_the_copy_to_end_by_the_shards_turn():
    gpu = FakeGpu(copy_s=0.25)
    settler, link = settler_on(gpu)
    settler.settle(0)
    settler.settle(0)
    assert link.reconstruction.turns == [7.0, 6.75]


def test_a_shards_time_is_taken_after_the_model_has_run():
    gpu, now = FakeGpu(), [0.0]
    link = Link(gpu.calls)
    upload = CudaUpload(gpu, link.reconstruction.memory)
    with source_on(link, upload, clock=lambda: now[0]) as source:
        source.read(0, GROUPS[0][0])
        gpu.launch(lambda: now.__setitem__(0, now[0] + 4.0))
        source.read(0, GROUPS[1][0])
        assert source.times.run_s[0] == pytest.approx(2.0)  # half of what was measured
