"""Catalogs on real servers: what they answer, and what our client makes of it."""

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from intonaco.errors import StoreAnswerError, StoreChangedError, StoreError, StoreLostError
from intonaco.streaming.fetch import fetch_template
from intonaco.streaming.prefix_cache import PrefixCache
from intonaco.streaming.store import Piece, RangeRequest, open_store
from intonaco.template.catalog import Template
from tests.support.catalog_servers import (
    free_port,
    nginx_server,
    object_server,
    own_server,
    small_catalog,
)

SERVERS = ("own", "nginx", "objects")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("catalog")
    small_catalog(root)
    return root


@pytest.fixture(scope="module")
def folder(catalog) -> Path:
    return next(path for path in catalog.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def own_url(catalog) -> Iterator[str]:
    with own_server(catalog) as url:
        yield url


@pytest.fixture(scope="module", params=SERVERS)
def any_url(request, catalog, tmp_path_factory) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        if request.param == "own":
            yield stack.enter_context(own_server(catalog))
        elif request.param == "nginx":
            scratch = tmp_path_factory.mktemp("nginx")
            yield stack.enter_context(nginx_server(catalog, scratch))
        else:
            yield stack.enter_context(object_server(catalog))


def latents(folder: Path) -> Path:
    return next(folder.glob("latents.*"))


async def read_all(url: str, *requests: RangeRequest) -> tuple[list[bytes], list[str]]:
    """Ask for all ranges at once; return their bytes and the tags that came with them."""
    connection = await open_store(url).connect()
    try:
        for request in requests:
            await connection.ask(request)
        contents, tags = [], []
        for request in requests:
            content = b""
            piece = Piece(content=b"", tag="")
            while len(content) < request.stop - request.start:
                piece = await connection.read()
                content += piece.content
            contents.append(content)
            tags.append(piece.tag)
        return contents, tags
    finally:
        await connection.close()


# What our own server answers


def test_the_entity_tag_is_strong_and_is_the_sha_256_of_the_content(own_url, folder):
    path = latents(folder)
    answer = httpx.get(f"{own_url}/{folder.name}/{path.name}")
    assert answer.headers["etag"] == f'"{hashlib.sha256(path.read_bytes()).hexdigest()}"'


def test_a_head_request_tells_length_and_tag_and_sends_no_body(own_url, folder):
    path = latents(folder)
    answer = httpx.head(f"{own_url}/{folder.name}/{path.name}")
    assert (answer.status_code, int(answer.headers["content-length"]), answer.content) == (
        200,
        path.stat().st_size,
        b"",
    )


def test_a_range_is_answered_with_206_and_just_those_bytes(own_url, folder):
    path = latents(folder)
    answer = httpx.get(f"{own_url}/{folder.name}/{path.name}", headers={"Range": "bytes=10-19"})
    assert (answer.status_code, answer.content) == (206, path.read_bytes()[10:20])


def test_a_range_beyond_the_end_is_answered_with_416(own_url, folder):
    url = f"{own_url}/{folder.name}/{latents(folder).name}"
    assert httpx.get(url, headers={"Range": "bytes=99999999-"}).status_code == 416


def test_a_range_of_another_version_is_answered_with_the_whole_file(own_url, folder):
    url = f"{own_url}/{folder.name}/{latents(folder).name}"
    headers = {"Range": "bytes=10-19", "If-Range": '"another"'}
    answer = httpx.get(url, headers=headers)
    assert (answer.status_code, answer.content) == (200, latents(folder).read_bytes())


def test_a_file_that_the_client_has_is_answered_with_304(own_url, folder):
    url = f"{own_url}/{folder.name}/{latents(folder).name}"
    tag = httpx.head(url).headers["etag"]
    assert httpx.get(url, headers={"If-None-Match": tag}).status_code == 304


@pytest.mark.parametrize("name", ["../secret", "%2e%2e/secret", ".catalog.lock", "nothing", ""])
def test_what_is_no_file_of_the_catalog_is_not_found(own_url, catalog, name):
    (catalog.parent / "secret").write_text("not served")
    host, port = own_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as raw:
        raw.sendall(f"GET /{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert raw.makefile("rb").readline().split()[1] == b"404"


def test_other_methods_are_refused(own_url, folder):
    assert httpx.post(f"{own_url}/{folder.name}/manifest.json").status_code == 405


def test_one_connection_serves_request_after_request(own_url, folder):
    with httpx.Client() as client:
        ports = {
            client.get(f"{own_url}/{folder.name}/manifest.json")
            .extensions["network_stream"]
            .get_extra_info("client_addr")[1]
            for _ in range(3)
        }
    assert len(ports) == 1


# What our client makes of any server


def test_pipelined_ranges_come_back_in_order(any_url, folder):
    path = latents(folder)
    content = path.read_bytes()
    name = f"{folder.name}/{path.name}"
    spans = [(0, 40), (40, 41), (100, 200), (10, 60)]
    requests = [RangeRequest(name=name, start=start, stop=stop) for start, stop in spans]
    contents, _ = asyncio.run(read_all(any_url, *requests))
    assert contents == [content[start:stop] for start, stop in spans]


def test_a_range_goes_on_where_it_stopped_if_the_tag_is_the_same(any_url, folder):
    path = latents(folder)
    name = f"{folder.name}/{path.name}"
    _, (tag,) = asyncio.run(read_all(any_url, RangeRequest(name=name, start=0, stop=50)))
    request = RangeRequest(name=name, start=50, stop=90, tag=tag)
    (rest,), _ = asyncio.run(read_all(any_url, request))
    assert tag
    assert rest == path.read_bytes()[50:90]


def test_a_changed_file_is_told_from_its_tag(any_url, folder):
    name = f"{folder.name}/{latents(folder).name}"
    request = RangeRequest(name=name, start=50, stop=90, tag='"another"')
    with pytest.raises(StoreChangedError, match="was changed on the server"):
        asyncio.run(read_all(any_url, request))


def test_a_missing_file_is_told_by_its_name(any_url):
    with pytest.raises(StoreAnswerError, match=r"nothing\.itn is not there"):
        asyncio.run(read_all(any_url, RangeRequest(name="nothing.itn", start=0, stop=9)))


def test_a_file_shorter_than_the_manifest_says_is_refused(any_url, folder):
    name = f"{folder.name}/{latents(folder).name}"
    with pytest.raises(StoreAnswerError):
        asyncio.run(read_all(any_url, RangeRequest(name=name, start=0, stop=10**7)))


def test_a_template_is_copied_whole_and_compared(any_url, folder):
    fetched = asyncio.run(fetch_template(open_store(any_url), folder.name))
    template = Template.open(folder)
    assert fetched.contents == {
        record.name: template.read(record) for record in template.manifest.files()
    }


def test_a_copy_goes_on_from_what_the_device_keeps(any_url, folder, tmp_path):
    template = Template.open(folder)
    record = template.manifest.bases[0]
    cache = PrefixCache(folder=tmp_path)
    cache.write(record.name, template.read_prefix(record, 500))
    fetched = asyncio.run(fetch_template(open_store(any_url), folder.name, cache=cache))
    total = sum(one.num_bytes for one in template.manifest.files())
    assert fetched.num_fetched_bytes == total - 500


def test_a_damaged_part_that_the_device_keeps_is_fetched_again(any_url, folder, tmp_path):
    record = Template.open(folder).manifest.bases[0]
    cache = PrefixCache(folder=tmp_path)
    cache.write(record.name, b"\0" * 500)
    fetched = asyncio.run(fetch_template(open_store(any_url), folder.name, cache=cache))
    assert hashlib.sha256(fetched.contents[record.name]).hexdigest() == record.sha256


# URLs and servers that cannot be used


@pytest.mark.parametrize(
    "url", ["http://user:word@host/x", "http://host/x?key=1", "http://", "http://host:99999/"]
)
def test_a_url_that_says_too_much_or_too_little_is_refused(url):
    with pytest.raises(StoreError, match=r"for example http://127\.0\.0\.1:8000"):
        open_store(url)


def test_a_server_that_is_not_there_is_told_so():
    store = open_store(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StoreLostError, match="cannot be reached"):
        asyncio.run(store.connect())


def test_a_folder_is_a_store_as_well(catalog, folder):
    path = latents(folder)
    request = RangeRequest(name=f"{folder.name}/{path.name}", start=3, stop=33)
    (content,), _ = asyncio.run(read_all(str(catalog), request))
    assert content == path.read_bytes()[3:33]


def test_what_fsspec_knows_is_a_store_as_well(folder):
    import fsspec

    content = latents(folder).read_bytes()
    fsspec.filesystem("memory").pipe_file("/catalog/a.itn", content)
    request = RangeRequest(name="a.itn", start=3, stop=33)
    (got,), _ = asyncio.run(read_all("memory://catalog", request))
    assert got == content[3:33]


def test_a_scheme_that_nobody_knows_is_refused():
    with pytest.raises(StoreError, match="cannot be used here"):
        open_store("carrier-pigeon://coop/catalog")
