"""Whole private edits over real sockets: what is drawn, what is said of it, and what left the device."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from intonaco.device.edit import FIRST_DECODE_SHARE, StreamedEdit, TemplateSession
from intonaco.device.link import LinkSettings, TemplateLink
from intonaco.errors import GenerationCancelled, TemplateIdentityError
from intonaco.model import load
from intonaco.pipelines.receipt import read_receipt
from intonaco.streaming.link import Fault
from intonaco.streaming.protocol import EmulatedLink
from intonaco.template.loading import load_template
from tests.support.catalog_servers import own_server
from tests.support.recording_proxy import recording_proxy
from tests.support.studio import SMALL_FILES, Studio, build_studio, complete
from tests.support.tiny_flux2 import build_tiny_flux2

# What a request holds; no word of it may ever be in what was sent.
WORDS = "a tall girl in a blue dress"
OTHER_WORDS = "a short boy with a red hat"
REQUEST_LINE = re.compile(
    rb"GET /[0-9a-f]{16}/(manifest\.json|[a-z0-9-]{1,60}\.[0-9a-f]{16}\.(png|itn)) HTTP/1\.1"
)
HEADER_LINES = (
    re.compile(rb"Host: 127\.0\.0\.1:\d+"),
    re.compile(rb"User-Agent: intonaco"),
    re.compile(rb"Accept-Encoding: identity"),
    re.compile(rb"Range: bytes=\d+-\d+"),
    re.compile(rb'If-Range: "[0-9a-f]{64}"'),
)
# Slow enough that an edit of the tiny model is over long before all of its state has come.
THIN = EmulatedLink(mbps=(0.2,), round_trip_s=0.01)


@pytest.fixture(scope="module")
def studio(tiny_flux2_folder, tmp_path_factory) -> Studio:
    return build_studio(load(tiny_flux2_folder), tmp_path_factory.mktemp("catalog"))


@pytest.fixture(scope="module")
def url(studio) -> Iterator[str]:
    with own_server(studio.catalog) as server:
        yield f"{server}/{studio.folder}"


def draw(
    studio: Studio, url: str, *, emulated: EmulatedLink | None = None, **request
) -> StreamedEdit:
    with TemplateLink(url, LinkSettings(emulated=emulated)) as link:
        return TemplateSession(studio.model, link).edit(**{"prompt": WORDS, **request})


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image)


def local_edit(studio: Studio, **request):
    state = load_template(studio.template)
    return studio.model.edit(
        state.picture, studio.mask_HW, template_state=state, **{"prompt": WORDS, **request}
    )


def dense_edit(studio: Studio):
    state = load_template(studio.template)
    dense = replace(state, source=None)
    return studio.model.edit(state.picture, studio.mask_HW, template_state=dense, prompt=WORDS)


# What is drawn


def test_a_slow_decoder_is_sent_no_more_than_floors_from_the_first_edit_on(studio, url):
    with TemplateLink(url) as link:
        link.reconstruction.wait_ready()
        # No time is long enough for more than the floors, which are asked for in any case.
        for worker in link.reconstruction._workers:
            worker.bytes_per_s = 1.0
        session = TemplateSession(studio.model, link, settings=SMALL_FILES)
        assert session.times.decode_bytes_per_s == FIRST_DECODE_SHARE
        # Steps of 0.4 s, in which the link could bring all: neither it nor time is a bound here.
        num_shards = len(session.times.run_s)
        session.times = replace(session.times, run_s=(0.2,) * num_shards, dense_step_s=1e6)
        edited = session.edit(prompt=WORDS, progress=lambda _: stand_for_work(0.4))
    manifest = studio.template.manifest
    files = [*manifest.bases, *(record for row in manifest.coefficients for record in row)]
    assert 0 < edited.stream.received_bytes <= sum(record.floor_bytes for record in files)


def stand_for_work(seconds: float) -> None:
    threading.Event().wait(seconds)


def test_with_all_of_the_state_the_picture_is_that_of_a_local_edit(studio, url):
    with TemplateLink(url) as link:
        edited = complete(TemplateSession(studio.model, link, settings=SMALL_FILES), prompt=WORDS)
    assert edited.stream.flag == "complete"
    # Coefficient files that buy nothing have a floor of no bytes and are never asked for.
    assert edited.stream.state_bytes >= sum(
        record.num_bytes for record in studio.template.manifest.bases
    )
    assert edited.picture.image.tobytes() == local_edit(studio).image.tobytes()


def test_pixels_outside_the_mask_are_the_templates_own_however_little_came(studio, url):
    edited = draw(studio, url, emulated=THIN)
    template = pixels(load_template(studio.template).picture)
    outside = ~studio.mask_HW
    assert (pixels(edited.picture.image)[outside] == template[outside]).all()


def test_on_a_thin_link_less_of_the_state_is_used_and_the_receipt_says_how_much(studio, url):
    edited = draw(studio, url, emulated=THIN)
    record = edited.picture.receipt.edit.template
    assert record.num_bytes == edited.stream.state_bytes
    assert edited.stream.state_bytes < studio.template.manifest.state_bytes
    assert (record.state, record.dense_from_step) == (
        edited.stream.state,
        edited.stream.dense_from_step,
    )


def test_without_the_network_the_rest_is_dense_and_the_picture_that_of_a_dense_edit(studio, url):
    with TemplateLink(url) as link:
        session = TemplateSession(studio.model, link)
        os.kill(link.process_id, signal.SIGKILL)
        link.wait_until_gone()
        edited = session.edit(prompt=WORDS)
    assert edited.stream.flag == "dense-from-step-0"
    assert edited.picture.receipt.edit.template.dense_from_step == 0
    assert edited.picture.image.tobytes() == dense_edit(studio).image.tobytes()


def test_without_reconstruction_the_rest_is_dense_and_the_next_edit_has_it_again(studio, url):
    with TemplateLink(url) as link:
        session = TemplateSession(studio.model, link, settings=SMALL_FILES)

        def end_reconstruction(event) -> bool:
            if event.index == 0:
                for number in link.reconstruction.process_ids:
                    os.kill(number, signal.SIGKILL)
            return True

        # The link alone would never be a reason to run dense.
        session.times = replace(session.times, dense_step_s=1e6)
        edited = session.edit(prompt=WORDS, progress=end_reconstruction)
        again = session.edit(prompt=WORDS)
    assert edited.stream.flag.startswith("dense-from-step-")
    assert any("reconstruction process" in trouble for trouble in edited.stream.troubles)
    assert again.stream.shards[0].word == "run"


def test_a_link_that_dies_on_the_way_ends_in_a_picture_with_its_flag(studio, url):
    dying = EmulatedLink(
        mbps=(0.3,),
        round_trip_s=0.01,
        faults=(Fault(kind="crawl", at_s=0.8, crawl_bytes_per_s=1.0),),
    )
    edited = draw(studio, url, emulated=dying)
    flag = edited.stream.flag
    assert flag in {"complete", "coded", "degraded"} or flag.startswith("dense-from-step-")


def test_a_server_that_goes_away_for_good_ends_in_a_picture(studio):
    with own_server(studio.catalog) as server:
        link = TemplateLink(f"{server}/{studio.folder}", LinkSettings(emulated=THIN))
    with link:
        session = TemplateSession(studio.model, link)
        edited = session.edit(prompt=WORDS, watch=lambda _: wait_for_trouble(session))
    assert edited.stream.flag.startswith("dense-from-step-")
    assert any("cannot be reached" in trouble for trouble in edited.stream.troubles)


def wait_for_trouble(session: TemplateSession) -> None:
    """Wait until the network's process has told of a trouble, 10 s at most: going dense may be quicker."""
    pause, until = threading.Event(), time.monotonic() + 10
    while time.monotonic() < until and not (session.progress and session.progress.trouble):
        pause.wait(0.01)


def test_a_cancelled_edit_leaves_the_session_ready_for_the_next(studio, url):
    def cancel(event) -> bool:
        return event.index < 1

    with TemplateLink(url) as link:
        session = TemplateSession(studio.model, link)
        with pytest.raises(GenerationCancelled):
            session.edit(prompt=WORDS, progress=cancel)
        edited = session.edit(prompt=WORDS)
    assert len(edited.picture.receipt.step_ms) == 4


def test_the_receipt_in_the_png_tells_of_the_stream(studio, url, tmp_path):
    edited = draw(studio, url)
    edited.picture.save(tmp_path / "a.png")
    record = read_receipt(tmp_path / "a.png").edit.template
    assert record.template_id == studio.template.manifest.template_id


def test_a_template_of_another_model_is_refused_by_its_field(studio, url, tmp_path):
    other = load(build_tiny_flux2(tmp_path / "other", seed=9))
    with (
        TemplateLink(url) as link,
        pytest.raises(TemplateIdentityError, match="model_digest"),
    ):
        TemplateSession(other, link).edit(prompt=WORDS)


# What left the device


def requests_of(sent: bytes) -> list[list[bytes]]:
    """Return the lines of each request among the bytes that a device sent."""
    return [text.split(b"\r\n") for text in sent.split(b"\r\n\r\n") if text]


def test_every_byte_that_leaves_the_device_is_a_file_name_a_range_or_plain_http(studio, url):
    with recording_proxy(url) as proxy:
        draw(studio, proxy.url, mask=studio.half_mask_HW, seed=123456789)
        sent = proxy.sent
    strange = [
        line
        for first, *rest in requests_of(sent)
        for line in (
            [] if REQUEST_LINE.fullmatch(first) else [first],
            [one for one in rest if not any(known.fullmatch(one) for known in HEADER_LINES)],
        )
        if line
    ]
    assert requests_of(sent)
    assert strange == []


def test_different_requests_ask_the_store_for_the_same_things(studio, url):
    reference = Image.new("RGB", (64, 64), (9, 8, 7))
    asked = []
    for request in (
        {"prompt": WORDS, "seed": 1},
        {"prompt": OTHER_WORDS, "seed": 2, "mask": studio.half_mask_HW},
        {"prompt": WORDS, "references": [reference]},
    ):
        with recording_proxy(url) as proxy:
            with TemplateLink(proxy.url) as link:
                # What is left to timing is in how many parts it comes.
                complete(TemplateSession(studio.model, link, settings=SMALL_FILES), **request)
            asked.append(covered(proxy.sent))
    assert asked[0] == asked[1] == asked[2]


def covered(sent: bytes) -> dict[bytes, set[int]]:
    """Return, per file, which bytes were asked for; a whole file counts as none."""
    bytes_of: dict[bytes, set[int]] = {}
    for first, *rest in requests_of(sent):
        name = first.split()[1].rpartition(b"/")[2]
        asked = bytes_of.setdefault(name, set())
        for line in rest:
            if match := re.fullmatch(rb"Range: bytes=(\d+)-(\d+)", line):
                asked |= set(range(int(match[1]), int(match[2]) + 1))
    return bytes_of


def test_what_is_reported_as_sent_is_what_was_sent(studio, url):
    with recording_proxy(url) as proxy:
        edited = draw(studio, proxy.url)
        reported = "".join(edited.stream.sent).encode()
        sent = proxy.sent
    assert sorted(requests_of(reported)) == sorted(requests_of(sent))


# The runtime


def test_a_busy_interpreter_does_not_stop_the_network(studio, url):
    stop = threading.Event()

    def keep_the_lock() -> None:
        while not stop.is_set():
            sum(range(10_000))

    busy = threading.Thread(target=keep_the_lock)
    busy.start()
    try:
        edited = draw(studio, url)
    finally:
        stop.set()
        busy.join()
    assert edited.stream.received_bytes > 0


def test_the_command_line_streams_and_explains_what_was_sent(
    studio, url, tmp_path, capsys, monkeypatch
):
    from intonaco.cli import main

    words = ["edit", "--template", url, "--prompt", WORDS, "-o", str(tmp_path / "a.png")]
    monkeypatch.setenv("INTONACO_PREFIXES", str(tmp_path / "prefixes"))
    model = ["-m", str(studio.model.checkpoint.folder)]
    assert main([*words, *model, "--explain-privacy"]) == 0
    shown = capsys.readouterr().out
    assert "everything that was sent" in shown
    assert WORDS not in shown
    assert main([*words, *model, "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (
        fields["stream"]["flag"] in {"complete", "coded", "degraded"}
        or fields["stream"]["dense_from_step"]
    )
