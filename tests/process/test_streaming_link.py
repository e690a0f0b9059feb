"""The network's process on real sockets: what it brings, what it survives, what it ends with."""

import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from intonaco.device.link import LinkSettings, TemplateLink
from intonaco.errors import (
    ManifestError,
    PackDamagedError,
    StoreAnswerError,
    StoreError,
    StoreLostError,
)
from intonaco.streaming.late import LateSettings
from intonaco.streaming.link import Fault
from intonaco.streaming.protocol import EmulatedLink
from intonaco.streaming.settings import StreamSettings
from intonaco.template.catalog import Template
from tests.support.catalog_servers import free_port, nginx_server, own_server, small_catalog
from tests.support.recording_proxy import recording_proxy
from tests.support.streaming_links import FAST, drive, fill, open_link


@pytest.fixture(scope="module")
def catalog(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("catalog")
    small_catalog(root)
    return root


@pytest.fixture(scope="module")
def template(catalog) -> Template:
    return Template.open(next(path for path in catalog.iterdir() if path.is_dir()))


@pytest.fixture(scope="module")
def url(catalog, template) -> Iterator[str]:
    with own_server(catalog) as server:
        yield f"{server}/{template.folder.name}"


def check_prefixes(driven, template: Template) -> None:
    """Every prefix that a shard could read is a prefix of the template's own file."""
    num_groups = len(template.manifest.bases)
    for start, coefficients, basis in zip(
        driven.starts, driven.coefficients, driven.bases, strict=True
    ):
        step, group = divmod(start.shard, num_groups)
        row = template.manifest.coefficients[step][group]
        assert template.read(row).startswith(coefficients)
        assert template.read(template.manifest.bases[group]).startswith(basis)


def test_what_edits_have_time_for_comes_whole_in_the_end(url, template):
    with open_link(url) as link:
        driven = fill(link)
    assert driven.words == ["run"] * 4
    check_prefixes(driven, template)
    last = driven.starts[-1]
    assert last.coefficient_bytes == template.manifest.coefficients[1][1].num_bytes


def test_a_slow_link_brings_prefixes_and_each_of_them_can_be_used(url, template):
    slow = EmulatedLink(mbps=(0.25,), round_trip_s=0.02)
    with open_link(url, emulated=slow) as link:
        driven = drive(link, run_s=0.05, dense_step_s=9.0)
    assert set(driven.words) == {"run"}
    check_prefixes(driven, template)
    total = template.manifest.state_bytes
    assert 0 < driven.summary.num_bytes < total


def test_a_store_that_crawls_is_not_waited_for_without_end(url):
    crawling = EmulatedLink(mbps=(0.01,), round_trip_s=0.02)
    with pytest.raises(StoreLostError, match=r"latents of .* did not come within 0\.5 s"):
        TemplateLink(url, LinkSettings(emulated=crawling, open_s=0.5))


def test_a_real_nginx_serves_an_edit_as_well(catalog, template, tmp_path):
    with (
        nginx_server(catalog, tmp_path) as server,
        open_link(f"{server}/{template.folder.name}") as link,
    ):
        driven = drive(link, run_s=0.1, encode_s=0.5)
    check_prefixes(driven, template)
    assert driven.words == ["run"] * 4


def test_a_second_edit_fetches_nothing_that_is_there(url):
    with open_link(url) as link:
        fill(link)
        again = drive(link)
    assert (again.summary.num_bytes, again.words) == (0, ["run"] * 4)


def test_prefixes_on_the_device_outlive_the_process(url, template, tmp_path):
    with open_link(url, cache_folder=tmp_path) as link:
        fill(link)
    with open_link(url, cache_folder=tmp_path) as link:
        again = drive(link)
    assert again.summary.num_bytes == 0
    check_prefixes(again, template)


def test_a_damaged_prefix_on_the_device_is_used_up_to_the_damage(url, template, tmp_path):
    with open_link(url, cache_folder=tmp_path) as link:
        fill(link)
    record = template.manifest.bases[0]
    kept = tmp_path / f"{record.name}.part"
    content = bytearray(kept.read_bytes())
    content[-20] ^= 1
    kept.write_bytes(content)
    with open_link(url, cache_folder=tmp_path) as link:
        again = drive(link, run_s=0.1, encode_s=0.5)
    check_prefixes(again, template)
    assert 0 < again.summary.num_bytes < record.num_bytes


def test_the_cache_keeps_within_its_bound(url, tmp_path):
    with open_link(url, cache_folder=tmp_path, cache_bytes=6000) as link:
        drive(link, run_s=0.1, encode_s=0.5)
    assert 0 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 6000


def test_a_full_disk_costs_the_next_edit_not_this_one(url, template, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    with open_link(url, cache_folder=blocked) as link:
        driven = drive(link, run_s=0.1, encode_s=0.5)
    assert driven.words == ["run"] * 4
    assert any("cache of prefixes cannot be written" in one for one in driven.summary.troubles)


# Trouble on the way


def test_a_connection_reset_in_the_middle_is_made_again_and_goes_on(url, template):
    def reset(conversation, content):
        is_streaming = b"Range:" in conversation.sent and conversation.index < 6
        return None if is_streaming and conversation.num_received > 1500 else content

    with recording_proxy(url, reset) as proxy, open_link(proxy.url) as link:
        driven = drive(link, run_s=0.2, encode_s=1.0, dense_step_s=60.0)
    check_prefixes(driven, template)
    assert driven.words == ["run"] * 4
    assert driven.summary.num_connections > 2


def test_a_server_that_restarts_is_found_again(catalog, template):
    port = free_port()
    folder = template.folder.name
    slow = EmulatedLink(mbps=(0.5,), round_trip_s=0.01)
    with contextlib.ExitStack() as first:
        first.enter_context(own_server(catalog, port=port))
        with open_link(f"http://127.0.0.1:{port}/{folder}", emulated=slow) as link:
            restarted = threading.Thread(target=first.close)
            restarted.start()
            restarted.join()
            with own_server(catalog, port=port):
                driven = drive(link, run_s=0.3, encode_s=0.2, dense_step_s=60.0)
    check_prefixes(driven, template)
    assert driven.words == ["run"] * 4


def test_a_server_that_restarts_amid_an_edit_is_gone_on_with(catalog, template):
    port = free_port()
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        url = first.enter_context(own_server(catalog, port=port))

        def restart_once(conversation, content):
            is_streaming = b"Range:" in conversation.sent and conversation.num_received > 1500
            if not is_streaming or restarts:
                return content
            restarts.append(conversation.index)
            first.close()
            second.enter_context(own_server(catalog, port=port))
            return None

        restarts: list[int] = []
        with (
            recording_proxy(f"{url}/{template.folder.name}", restart_once) as proxy,
            open_link(proxy.url) as link,
        ):
            driven = drive(link, run_s=0.5, encode_s=3.0, dense_step_s=600.0)
    check_prefixes(driven, template)
    assert restarts
    assert driven.words == ["run"] * 4
    assert driven.starts[-1].coefficient_bytes > 0


def test_a_damaged_part_is_fetched_once_more(url, template):
    damages = []

    def damage_once(conversation, content):
        # What arrives at once may be any part of an answer: only its body is damaged.
        body = content.rpartition(b"\r\n\r\n")[2]
        if damages or b"Range:" not in conversation.sent or len(body) < 100:
            return content
        damages.append(conversation.index)
        return content[:-50] + bytes([content[-50] ^ 1]) + content[-49:]

    with recording_proxy(url, damage_once) as proxy, open_link(proxy.url) as link:
        driven = drive(link, run_s=0.2, encode_s=0.5, dense_step_s=60.0)
    check_prefixes(driven, template)
    assert driven.words == ["run"] * 4
    assert any("CRC-32C" in trouble for trouble in driven.summary.troubles)


def flip_middle(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_a_store_whose_copy_is_bad_is_left_and_the_step_runs_dense(url, template):
    def damage(conversation, content):
        if b"Range:" not in conversation.sent:
            return content
        # Heads and bodies arrive in any pieces, several answers at once: every piece of a body is hit.
        pieces = re.split(rb"(HTTP/1\.1 .*?\r\n\r\n)", content, flags=re.DOTALL)
        return b"".join(
            piece if piece.startswith(b"HTTP/") or not piece else flip_middle(piece)
            for piece in pieces
        )

    with recording_proxy(url, damage) as proxy, open_link(proxy.url) as link:
        driven = drive(link, run_s=0.1, dense_step_s=0.3)
    check_prefixes(driven, template)
    assert driven.words[-1] in {"dense", "borrow"}
    assert any("bad" in trouble or "CRC" in trouble for trouble in driven.summary.troubles)


def test_a_file_that_changes_on_the_server_is_never_mixed_with_its_older_self(tmp_path):
    folder = small_catalog(tmp_path)
    template = Template.open(folder)
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    slow = EmulatedLink(mbps=(0.4,), round_trip_s=0.01)
    with (
        own_server(tmp_path) as server,
        open_link(f"{server}/{folder.name}", emulated=slow) as link,
    ):
        drive(link, run_s=0.02, until=1, dense_step_s=9.0)
        for name, content in contents.items():
            (folder / name).write_bytes(bytes(reversed(content)))
        driven = drive(link, run_s=0.2, dense_step_s=0.5)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    check_prefixes(driven, template)
    assert any("changed on the server" in trouble for trouble in driven.summary.troubles)


def test_silence_for_five_seconds_ends_in_dense_steps_long_before_it_is_over(url, template):
    silent = EmulatedLink(
        mbps=(0.25,),
        round_trip_s=0.01,
        faults=(Fault(kind="silence", at_s=0.3, length_s=5.0),),
    )
    with open_link(url, emulated=silent) as link:
        driven = drive(link, run_s=0.4, encode_s=0.1, dense_step_s=0.6)
    check_prefixes(driven, template)
    assert driven.words[-1] in {"dense", "run", "borrow"}


def test_a_server_that_crawls_for_ever_is_left_for_dense_steps(url, template):
    crawl = EmulatedLink(
        mbps=(1.0,),
        round_trip_s=0.01,
        faults=(Fault(kind="crawl", at_s=0.0, crawl_bytes_per_s=50.0),),
    )
    with open_link(url, emulated=crawl) as link:
        driven = drive(link, run_s=0.2, encode_s=0.1, dense_step_s=0.5)
    check_prefixes(driven, template)
    assert driven.words[-1] == "dense"


def test_a_real_server_that_crawls_for_ever_is_left_for_dense_steps(catalog, template, tmp_path):
    crawls = "location ~ (basis|coefficients) { limit_rate 40; }"
    with (
        nginx_server(catalog, tmp_path, more=crawls) as server,
        open_link(f"{server}/{template.folder.name}") as link,
    ):
        driven = drive(link, run_s=0.2, encode_s=0.1, dense_step_s=0.5)
    check_prefixes(driven, template)
    assert driven.words[-1] == "dense"


def test_where_no_dense_run_is_possible_the_wait_ends_by_its_bound(url):
    dead = EmulatedLink(
        mbps=(1.0,),
        round_trip_s=0.01,
        faults=(Fault(kind="crawl", at_s=0.0, crawl_bytes_per_s=1.0),),
    )
    late = LateSettings(give_up_s=1.0)
    with open_link(url, emulated=dead) as link:
        driven = drive(
            link, run_s=0.1, dense_step_s=None, settings=StreamSettings(late=late), encode_s=0.0
        )
    assert driven.words == ["give-up"]


def test_a_network_process_that_is_killed_is_told_within_a_bound(url):
    with open_link(url) as link:
        os.kill(link.process_id, signal.SIGKILL)
        with pytest.raises(StoreLostError, match="has ended"):
            drive(link)


# Templates that cannot be opened


def test_a_server_that_is_not_there_is_told_so():
    with pytest.raises(StoreLostError, match="cannot be reached"):
        TemplateLink(f"http://127.0.0.1:{free_port()}/0123")


def test_a_template_that_is_not_there_is_told_by_its_name(url):
    with pytest.raises(StoreAnswerError, match=r"manifest\.json is not there"):
        TemplateLink(url.rpartition("/")[0] + "/0000000000000000")


def test_a_manifest_that_is_no_manifest_is_refused(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "manifest.json").write_text('{"schema_version": 99}')
    with pytest.raises(ManifestError, match="schema_version"):
        TemplateLink(str(tmp_path / "x"))


def test_latents_that_are_not_those_of_the_manifest_are_refused(tmp_path):
    folder = small_catalog(tmp_path)
    path = next(folder.glob("latents.*"))
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(PackDamagedError, match="SHA-256"):
        TemplateLink(str(folder))


def test_an_answer_that_is_no_http_is_refused():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-something\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(StoreError, match=r"no HTTP/1\.1 answer"):
            TemplateLink(
                f"http://127.0.0.1:{listener.getsockname()[1]}/x", LinkSettings(emulated=FAST)
            )
        thread.join()


def test_the_network_s_process_ends_by_itself_when_its_link_is_closed(url):
    with open_link(url) as link:
        drive(link)
    assert link._process.returncode == 0  # a process that had to be killed has -9


def test_nothing_is_left_behind_by_a_link(url):
    before = set(os.listdir("/dev/shm"))
    with open_link(url) as link:
        process_id = link.process_id
    assert set(os.listdir("/dev/shm")) <= before
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)
