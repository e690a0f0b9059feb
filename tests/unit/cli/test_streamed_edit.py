"""`edit --template URL` and `template serve|fetch` at the desk: what is refused, what is said."""

import threading
from dataclasses import replace

import pytest

from intonaco.cli import main, streamed_edit
from intonaco.cli.streamed_edit import describe, explain, is_url, parse_link
from intonaco.device.records import ShardRecord, StreamRecord
from intonaco.errors import RequestError


def shard(**changes) -> ShardRecord:
    fields = {
        "step": 0,
        "group": 0,
        "word": "run",
        "level": 3,
        "coefficient_bytes": 4,
        "basis_bytes": 6,
        "is_cut": False,
        "is_below_floor": False,
        "is_whole": False,
        "stall_s": 0.0,
    }
    return ShardRecord(**{**fields, **changes})


RECORD = StreamRecord(
    shards=(
        shard(group=0, is_cut=False, stall_s=0.01),
        shard(group=1, is_cut=True, stall_s=0.02),
    ),
    dense_from_step=None,
    state_bytes=1_500_000,
    received_bytes=2_000_000,
    bytes_per_s=1e6,
    sent=("GET /id/basis-0.itn HTTP/1.1\r\nHost: host\r\nRange: bytes=0-9\r\n\r\n",),
    num_connections=1,
    troubles=(),
    seconds=1.25,
)


@pytest.mark.parametrize(
    ("template", "expected"),
    [("http://host/id", True), ("s3://bucket/id", True), ("catalog/3fa9", False), ("3fa9", False)],
)
def test_a_store_is_told_from_a_folder_by_its_scheme(template, expected):
    assert is_url(template) is expected


def test_a_rate_describes_a_link():
    assert parse_link("5").mbps == (5.0,)


def test_a_trace_describes_a_link(tmp_path):
    trace = tmp_path / "walk.csv"
    trace.write_text("time_s,throughput_mbps\n0,5\n1,0.5\n")
    assert parse_link(str(trace)).mbps == (5.0, 0.5)


@pytest.mark.parametrize("text", ["0", "-1", "fast", "nan"])
def test_what_describes_no_link_is_refused(text):
    with pytest.raises(RequestError, match="--emulate-link must be"):
        parse_link(text)


def test_an_edit_is_described_in_one_line():
    assert describe(RECORD) == (
        "coded: 1.500 MB of state used, 2.000 MB received, 2 shards, 1 cut, 0 borrowed, 30 ms of "
        "stalls in 1.25 s"
    )


def test_an_edit_that_left_its_link_says_what_became_of_the_rest():
    dense = replace(RECORD, dense_from_step=3)
    assert describe(dense).endswith("s; from step 3 on every token was computed here, exactly")


@pytest.mark.parametrize(
    ("shards", "dense_from_step", "flag"),
    [
        ((shard(is_whole=True), shard(is_whole=True)), None, "complete"),
        ((shard(is_whole=True), shard()), None, "coded"),
        ((shard(is_cut=True),), None, "coded"),
        ((shard(is_whole=True), shard(word="borrow")), None, "degraded"),
        ((shard(is_whole=True), shard(is_below_floor=True)), None, "degraded"),
        ((shard(is_whole=True), shard(word="borrow")), 2, "dense-from-step-2"),
    ],
)
def test_the_flag_says_what_became_of_the_state(shards, dense_from_step, flag):
    assert replace(RECORD, shards=shards, dense_from_step=dense_from_step).flag == flag


def test_what_was_sent_is_shown_as_it_was():
    assert "GET /id/basis-0.itn HTTP/1.1 | Host: host | Range: bytes=0-9" in explain(RECORD)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["doll.png", "--mask", "a.png", "--explain-privacy"], "need --template with a URL"),
        (["doll.png", "--mask", "a.png", "--emulate-link", "5"], "need --template with a URL"),
        (["--template", "http://host/id", "--budget-mb", "1"], "--budget-mb cannot be had"),
        (["--template", "http://host/id", "--steps", "4"], "--steps cannot be had"),
        (["doll.png", "--template", "http://host/id"], "PICTURE cannot be had"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(words, message, capsys):
    assert main(["edit", *words, "--prompt", "a doll"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "70000", "many"])
def test_a_port_that_is_none_is_refused(port, tmp_path, capsys):
    assert main(["template", "serve", str(tmp_path), f"--port={port}"]) == 2
    assert "--port must be" in capsys.readouterr().err


def test_a_folder_without_a_catalog_is_not_served(tmp_path, capsys):
    assert main(["template", "serve", str(tmp_path), "--port", "0"]) == 3
    assert "intonaco template build" in capsys.readouterr().err


def test_a_template_is_fetched_from_a_folder_and_listed(tmp_path, capsys, monkeypatch):
    from tests.support.catalog_servers import small_catalog

    monkeypatch.setenv("INTONACO_PREFIXES", str(tmp_path / "prefixes"))
    folder = small_catalog(tmp_path / "from")
    assert main(["template", "fetch", str(folder), "-o", str(tmp_path / "to")]) == 0
    assert (tmp_path / "to" / folder.name / "manifest.json").is_file()
    assert "were fetched now" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["fetch", "http://127.0.0.1:1/3fa9"],
        ["build", "missing.png", "--mask", "missing.png", "--prompt", "a doll"],
    ],
)
def test_a_catalog_that_cannot_be_written_is_told_before_the_work(words, tmp_path, capsys):
    (tmp_path / "file").write_bytes(b"")
    assert main(["template", *words, "-o", str(tmp_path / "file" / "catalog")]) == 3
    assert "--output must lie in an existing folder" in capsys.readouterr().err


def test_an_interrupt_does_not_wait_for_a_template_that_is_still_opening(monkeypatch):
    may_open, is_closed = threading.Event(), threading.Event()

    class CrawlingLink:
        def __init__(self, *_: object) -> None:
            assert may_open.wait(20)

        def close(self) -> None:
            is_closed.set()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("intonaco.device.link.TemplateLink", CrawlingLink)
    monkeypatch.setattr("intonaco.cli.drawing.load_model", interrupted)
    with pytest.raises(KeyboardInterrupt):
        streamed_edit._open(None, "http://store/3fa9", None, {})
    assert not is_closed.is_set()
    may_open.set()
    assert is_closed.wait(20)
