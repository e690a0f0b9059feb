"""Edits over a link that the kernel shapes: another network namespace, a token bucket, real loss."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from PIL import Image

from intonaco.model import Model, load
from intonaco.template.catalog import Template
from intonaco.template.loading import load_template
from tests.support.edit_device import EditDevice, Order, device_command
from tests.support.shaped_namespace import (
    SERVER_ADDRESS,
    NamespaceUnavailableError,
    ShapedNamespace,
    shaped_namespace,
)
from tests.support.studio import build_larger_template

DEADLINE_S = 120.0
WORDS = "a tall girl in a blue dress"
LOSS_S = 5.0
# Slow enough that the tiny model's edit ends long before its state has come.
SLOW_MBPS = 0.5
PATIENT_S = 0.4
NUM_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Studio:
    folder: Path
    model: Model
    template: Template


@pytest.fixture(scope="module")
def link() -> Iterator[ShapedNamespace]:
    try:
        with shaped_namespace() as made:
            yield made
    except NamespaceUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def studio(link, tiny_flux2_folder, tmp_path_factory) -> Studio:
    model = load(tiny_flux2_folder)
    template = build_larger_template(model, tmp_path_factory.mktemp("catalog"))
    return Studio(folder=tiny_flux2_folder, model=model, template=template)


@pytest.fixture(scope="module")
def url(link, studio) -> Iterator[str]:
    """The URL of the template, at a server of the other namespace."""
    words = ["template", "serve", str(studio.template.folder.parent), "--port", "0", "--json"]
    command = [sys.executable, "-m", "intonaco", *words, "--host", SERVER_ADDRESS]
    with subprocess.Popen(
        link.command("server", *command), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield f"{json.loads(process.stdout.readline())['url']}/{studio.template.folder.name}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=DEADLINE_S)


@contextlib.contextmanager
def device_on(link: ShapedNamespace, url: str, studio: Studio) -> Iterator[EditDevice]:
    command = link.command("device", *device_command(url, studio.folder))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield EditDevice(process=process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=DEADLINE_S)


def await_bytes(link: ShapedNamespace, num_bytes: int) -> None:
    """Return once the device has received `num_bytes` in all."""
    deadline = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while link.received_bytes() < num_bytes:
        assert time.monotonic() < deadline, f"{num_bytes} bytes do not come"
        pause.wait(0.002)


def read(path: str) -> Image.Image:
    with Image.open(path) as picture:
        picture.load()
        return picture


def dense_edit(studio: Studio) -> Image.Image:
    state = load_template(studio.template)
    return studio.model.edit(
        state.picture, state.mask_HW, template_state=replace(state, source=None), prompt=WORDS
    ).image


def test_what_comes_is_what_the_kernel_lets_through(link, url, studio, tmp_path):
    link.shape(SLOW_MBPS)
    order = Order(prompt=WORDS, output=str(tmp_path / "a.png"), run_s=PATIENT_S)
    with device_on(link, url, studio) as device:
        device.prepare(order)
        before = link.received_bytes()
        device.go_on()
        result = device.result()
        on_the_wire = link.received_bytes() - before
    assert 0 < result["received_bytes"] < on_the_wire
    # A second for what the queue and the last request of the edit bring after its end.
    assert result["received_bytes"] <= SLOW_MBPS * 1e6 / 8 * (result["seconds"] + 1.0)


def test_five_seconds_of_loss_amid_an_edit_end_in_a_picture_that_says_so(
    link, url, studio, tmp_path
):
    link.shape(SLOW_MBPS)
    first, second = (
        Order(
            prompt=WORDS,
            output=str(tmp_path / name),
            run_s=PATIENT_S,
            stops_after_steps=name == "lost.png",
        )
        for name in ("lost.png", "after.png")
    )
    with device_on(link, url, studio) as device:
        device.prepare(first)
        device.go_on()
        device.await_step()
        link.lose_all()
        lost_at, seen = time.monotonic(), link.received_bytes()
        for _ in range(NUM_STEPS - 1):
            device.go_on()
            device.await_step()
        device.go_on()
        lost = device.result()
        while_lost = link.received_bytes() - seen
        threading.Event().wait(LOSS_S - (time.monotonic() - lost_at))
        link.shape(20.0)
        after = device.edit(second)
    assert while_lost == 0
    # Where every floor had come before, the edit is still a coded one, but some shard was cut.
    is_dense = lost["flag"].startswith("dense-from-step-")
    assert is_dense or lost["flag"] == "degraded" or (lost["flag"] == "coded" and lost["num_cut"])
    assert after["received_bytes"] > 0
    with Image.open(first.output) as one, Image.open(second.output) as other:
        assert one.size == other.size


def test_a_link_that_is_dead_from_the_edit_on_gives_the_picture_of_a_dense_edit(
    link, url, studio, tmp_path
):
    link.shape(20.0)
    order = Order(prompt=WORDS, output=str(tmp_path / "a.png"))
    with device_on(link, url, studio) as device:
        device.prepare(order)
        link.lose_all()
        device.go_on()
        result = device.result()
    assert result["flag"] == "dense-from-step-0"
    assert Image.open(order.output).tobytes() == dense_edit(studio).tobytes()


def test_a_copy_that_meets_five_seconds_of_loss_is_whole_in_the_end(link, url, studio, tmp_path):
    link.shape(1.0)
    words = ["template", "fetch", url, "-o", str(tmp_path / "catalog"), "--json"]
    command = link.command("device", sys.executable, "-m", "intonaco", *words)
    seen = link.received_bytes()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        await_bytes(link, seen + 20_000)
        link.lose_all()
        threading.Event().wait(LOSS_S)
        link.shape(20.0)
        assert process.wait(timeout=DEADLINE_S) == 0
    copied = Template.open(tmp_path / "catalog" / studio.template.folder.name)
    assert [copied.read(record) for record in copied.manifest.files()] == [
        studio.template.read(record) for record in studio.template.manifest.files()
    ]


def test_nothing_of_the_link_is_left_on_this_machine(link):
    cards = Path("/proc/net/dev").read_text()
    assert "to-device" not in cards
    assert "to-server" not in cards
