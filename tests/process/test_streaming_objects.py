"""A private bucket by an s3:// URL: read in parts, by who may, and by nobody else."""

import asyncio
import hashlib
import re
from collections.abc import Iterator

import pytest

from intonaco.device.link import TemplateLink
from intonaco.errors import StoreAnswerError, StoreLostError
from intonaco.streaming.fetch import fetch_template
from intonaco.streaming.prefix_cache import PrefixCache
from intonaco.streaming.store import RangeRequest, open_store
from intonaco.template.catalog import Template
from tests.support.buckets import Bucket, private_bucket
from tests.support.catalog_servers import free_port, small_catalog
from tests.support.recording_proxy import recording_proxy
from tests.support.streaming_links import drive, open_link

# An object store has no entity tag here, and one round trip a range.
LONG_S = 0.4


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Template:
    return Template.open(small_catalog(tmp_path_factory.mktemp("catalog")))


@pytest.fixture(scope="module")
def bucket(template) -> Iterator[Bucket]:
    with private_bucket(template.folder.parent) as made:
        yield made


@pytest.fixture(autouse=True)
def no_kept_connection():
    """fsspec keeps what it opened by URL, with the credentials of then."""
    yield
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def reader(bucket, monkeypatch) -> Bucket:
    """This machine has the credentials of the bucket's reader."""
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    return bucket


async def read(url: str, request: RangeRequest) -> bytes:
    connection = await open_store(url).connect()
    await connection.ask(request)
    content = b""
    while len(content) < request.stop - request.start:
        content += (await connection.read()).content
    await connection.close()
    return content


def latents_of(template: Template) -> tuple[str, bytes]:
    record = template.manifest.latents
    return f"{template.folder.name}/{record.name}", template.read(record)


def test_a_range_of_a_private_object_is_just_those_bytes(reader, template):
    name, content = latents_of(template)
    assert asyncio.run(read(reader.url, RangeRequest(name=name, start=7, stop=90))) == content[7:90]


def test_a_template_is_copied_whole_and_compared(reader, template):
    fetched = asyncio.run(fetch_template(open_store(reader.url), template.folder.name))
    assert fetched.contents == {
        record.name: template.read(record) for record in template.manifest.files()
    }


def test_a_copy_goes_on_from_what_the_device_keeps(reader, template, tmp_path):
    record = template.manifest.bases[0]
    cache = PrefixCache(folder=tmp_path)
    cache.write(record.name, template.read_prefix(record, 500))
    fetched = asyncio.run(fetch_template(open_store(reader.url), template.folder.name, cache=cache))
    total = sum(one.num_bytes for one in template.manifest.files())
    assert fetched.num_fetched_bytes == total - 500
    assert hashlib.sha256(fetched.contents[record.name]).hexdigest() == record.sha256


def test_an_edit_streams_from_a_private_bucket(reader, template):
    with open_link(f"{reader.url}/{template.folder.name}") as link:
        driven = drive(link, run_s=LONG_S, encode_s=2.0)
    assert driven.words == ["run"] * 4
    for start, coefficients in zip(driven.starts, driven.coefficients, strict=True):
        step, group = divmod(start.shard, len(template.manifest.bases))
        assert template.read(template.manifest.coefficients[step][group]).startswith(coefficients)


def test_a_key_that_is_not_there_is_told_by_its_name(reader):
    request = RangeRequest(name="0000000000000000/nothing.itn", start=0, stop=9)
    with pytest.raises(StoreAnswerError, match=r"has no 0000000000000000/nothing\.itn"):
        asyncio.run(read(reader.url, request))


def test_a_bucket_that_is_not_there_is_told_by_its_url(reader):
    with pytest.raises(StoreAnswerError, match=r"s3://elsewhere has no 0123/manifest\.json"):
        TemplateLink("s3://elsewhere/0123")


def test_a_file_shorter_than_the_manifest_says_is_refused(reader, template):
    name, content = latents_of(template)
    request = RangeRequest(name=name, start=0, stop=len(content) + 1)
    with pytest.raises(StoreAnswerError, match="ends at byte"):
        asyncio.run(read(reader.url, request))


def test_a_wrong_secret_is_refused_and_the_message_says_what_to_check(
    bucket, template, monkeypatch
):
    for name, value in bucket.environment(secret="not the reader's secret").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreAnswerError, match=r"may not be read .* AWS_SECRET_ACCESS_KEY"):
        TemplateLink(f"{bucket.url}/{template.folder.name}")


def test_a_machine_without_credentials_is_told_so(bucket, template, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(StoreAnswerError, match=r"may not be read .* AWS_ACCESS_KEY_ID"):
        TemplateLink(f"{bucket.url}/{template.folder.name}")


def test_an_endpoint_that_is_not_there_is_told_within_a_bound(reader, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StoreLostError, match="cannot be read now"):
        TemplateLink(f"{reader.url}/0123")


def test_what_is_sent_to_a_bucket_names_the_reader_and_the_range_and_no_more(
    reader, template, monkeypatch
):
    with recording_proxy(reader.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        with open_link(f"{reader.url}/{template.folder.name}") as link:
            drive(link, run_s=LONG_S, encode_s=2.0)
        sent = proxy.sent
    names = {
        line.partition(b":")[0].lower()
        for request in sent.split(b"\r\n\r\n")
        for line in request.split(b"\r\n")[1:]
    }
    signed = {b"authorization", b"x-amz-date", b"x-amz-content-sha256"}
    kept = {
        b"amz-sdk-invocation-id",
        b"amz-sdk-request",
        b"accept-encoding",
        b"x-amz-checksum-mode",
    }
    assert names <= {b"host", b"accept", b"user-agent", b"range"} | signed | kept
    assert set(re.findall(rb"(?i)user-agent: ([^\r/]*)/", sent)) == {b"intonaco botocore"}
