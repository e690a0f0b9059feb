"""Shards on their way to a GPU: in which order they are copied, read, and their memory used again."""

import gc

import pytest
import torch

from intonaco.device.upload import CudaUpload, HostUpload, upload_to
from intonaco.errors import StreamingError
from tests.support.fake_gpu import FakeGpu


def rows(value: float):
    return torch.full((3, 4), value)


def blocks(first: int, value: float):
    return {block: (rows(value + block), rows(-value - block)) for block in range(first, first + 2)}


def upload_on(gpu: FakeGpu) -> CudaUpload:
    return CudaUpload(gpu, torch.zeros(64, dtype=torch.uint8))


def test_a_model_on_the_host_reads_where_reconstruction_wrote():
    upload = upload_to(torch.device("cpu"), torch.zeros(64, dtype=torch.uint8))
    sent = blocks(0, 1.0)
    assert isinstance(upload, HostUpload)
    assert upload.take(upload.send(sent)) is sent


def test_sending_returns_before_anything_is_copied():
    gpu = FakeGpu()
    upload_on(gpu).send(blocks(0, 1.0))
    assert gpu.num_copied == 0


def test_what_the_model_launches_after_taking_a_shard_sees_its_numbers():
    gpu, seen = FakeGpu(), []
    upload = upload_on(gpu)
    taken = upload.take(upload.send(blocks(0, 1.0)))
    gpu.launch(lambda: seen.append(taken[1][0].clone()))
    upload.wait_run()
    assert torch.equal(seen[0], rows(2.0))


def test_the_models_stream_waits_before_memory_is_held_for_it():
    gpu = FakeGpu()
    upload = upload_on(gpu)
    uploaded = upload.send(blocks(0, 1.0))
    gpu.calls.clear()
    upload.take(uploaded)
    assert gpu.calls == ["wait", "hold", "hold", "hold", "hold"]


def test_a_shard_may_be_taken_again_to_be_borrowed():
    gpu = FakeGpu()
    upload = upload_on(gpu)
    uploaded = upload.send(blocks(0, 1.0))
    upload.take(uploaded)
    upload.wait_run()
    again = upload.take(uploaded)
    upload.wait_run()
    assert torch.equal(again[0][0], rows(1.0))


def test_memory_may_be_written_again_once_sending_was_waited_for():
    gpu, sent = FakeGpu(), blocks(0, 1.0)
    upload = upload_on(gpu)
    uploaded = upload.send(sent)
    upload.wait_sent()
    sent[0][0].fill_(9.0)
    taken = upload.take(uploaded)
    upload.wait_run()
    assert torch.equal(taken[0][0], rows(1.0))


def test_without_locked_memory_each_shard_goes_through_a_locked_copy():
    gpu = FakeGpu(can_lock=False)
    upload = upload_on(gpu)
    upload.send(blocks(0, 1.0))
    upload.close()
    assert gpu.calls == ["lock", "mark", *["staged copy"] * 4, "mark"]


def test_how_long_a_shard_was_under_way_is_known_after_waiting():
    upload = upload_on(FakeGpu(copy_s=0.25))
    upload.send(blocks(0, 1.0))
    before = upload.copy_s
    upload.wait_sent()
    assert (before, upload.copy_s) == (0.0, 0.25)


def test_waiting_for_what_was_never_sent_returns_at_once():
    gpu = FakeGpu()
    upload = upload_on(gpu)
    upload.wait_sent()
    assert gpu.calls == ["lock"]


def test_a_gpu_without_memory_is_an_error_of_the_stream():
    upload = upload_on(FakeGpu(num_bytes=8))
    with pytest.raises(StreamingError, match=r"cannot be copied to the GPU: CUDA out of memory"):
        upload.send(blocks(0, 1.0))


def test_memory_is_unlocked_once_however_often_it_is_closed():
    gpu = FakeGpu()
    upload = upload_on(gpu)
    upload.close()
    upload.close()
    assert gpu.calls == ["lock", "unlock"]


def test_memory_is_unlocked_when_the_upload_goes():
    gpu = FakeGpu()
    upload = upload_on(gpu)
    del upload
    gc.collect()
    assert gpu.calls == ["lock", "unlock"]
