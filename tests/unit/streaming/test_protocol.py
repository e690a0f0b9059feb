"""Messages between the two processes: they come through unchanged, and say nothing of a request."""

import dataclasses
import subprocess
import sys

import pytest

from intonaco.errors import StoreError
from intonaco.streaming import protocol
from intonaco.streaming.link import Fault
from intonaco.streaming.protocol import (
    TO_DEVICE,
    TO_NETWORK,
    AskStart,
    Begin,
    EmulatedLink,
    Open,
    Started,
    decode_to_device,
    decode_to_network,
)
from intonaco.streaming.settings import StreamSettings

# A device says where a template is, how fast it is itself and where its run stands.
KNOWN_FIELDS = {
    *("kind", "url", "folder", "cache_folder", "cache_bytes", "idle_s", "emulated"),
    *("run_s", "reconstruct_s", "dense_step_s", "decode_bytes_per_s", "start_at", "settings"),
    *("shard", "has_borrowed", "at"),
}
TO_NETWORK_KINDS = (Open, Begin, AskStart, protocol.Begun, protocol.Ended, protocol.Finish)


@pytest.mark.parametrize(
    "message",
    [
        Open(
            url="http://host",
            folder="0123",
            cache_folder=None,
            cache_bytes=5,
            idle_s=1.0,
            emulated=EmulatedLink(mbps=(1.0, 2.0), faults=(Fault(kind="silence", at_s=1.0),)),
        ),
        Begin(
            run_s=(0.1,),
            reconstruct_s=(0.01,),
            dense_step_s=None,
            start_at=12.5,
            settings=StreamSettings(),
        ),
        AskStart(shard=3),
    ],
)
def test_a_message_to_the_network_comes_through_unchanged(message):
    assert decode_to_network(TO_NETWORK.dump_json(message)) == message


def test_a_message_to_the_device_comes_through_unchanged():
    message = Started(
        shard=1, word="run", level=2, coefficient_bytes=3, basis_bytes=4, is_cut=False
    )
    assert decode_to_device(TO_DEVICE.dump_json(message)) == message


@pytest.mark.parametrize("content", [b"", b"{}", b'{"kind": "open"}', b'{"kind": "evil"}', b"\x80"])
def test_what_is_no_message_is_refused(content):
    with pytest.raises(StoreError, match="no message to the network's process"):
        decode_to_network(content)
    with pytest.raises(StoreError, match="no message to the device's process"):
        decode_to_device(content)


def test_no_message_to_the_network_has_a_field_for_words_pictures_masks_or_seeds():
    fields = {field.name for kind in TO_NETWORK_KINDS for field in dataclasses.fields(kind)}
    assert fields == KNOWN_FIELDS


def test_the_network_process_never_imports_what_holds_requests():
    code = (
        "import sys, intonaco.device.network_process\n"
        "holders = ('torch', 'diffusers', 'intonaco.model', 'intonaco.families', "
        "'intonaco.pipelines')\n"
        "assert not set(holders) & set(sys.modules), set(holders) & set(sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
