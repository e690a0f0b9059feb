"""Stores behind TLS: who is believed, and what is said where nobody can be."""

import asyncio
import ssl
from collections.abc import Iterator

import pytest

from intonaco.device.link import TemplateLink
from intonaco.errors import StoreAnswerError, StoreLostError, StoreTrustError
from intonaco.streaming.fetch import fetch_template
from intonaco.streaming.store import open_store
from intonaco.template.catalog import Template
from tests.support.catalog_servers import own_server, small_catalog
from tests.support.recording_proxy import recording_proxy
from tests.support.streaming_links import drive, open_link
from tests.support.tls import Certificates, make_certificates, tls_nginx, tls_server


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Template:
    return Template.open(small_catalog(tmp_path_factory.mktemp("catalog")))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"), "127.0.0.1")


@pytest.fixture(scope="module", params=["uvicorn", "nginx"])
def server(request, template, certificates, tmp_path_factory) -> Iterator[str]:
    """The URL of a catalog behind TLS, by two servers."""
    root = template.folder.parent
    if request.param == "uvicorn":
        with tls_server(root, certificates) as url:
            yield url
    else:
        with tls_nginx(root, certificates, tmp_path_factory.mktemp("nginx")) as url:
            yield url


@pytest.fixture
def trusted(certificates, monkeypatch) -> None:
    """The machine trusts the authority, as it would by its own list of authorities."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))


def connect_to(url: str) -> None:
    async def connect() -> None:
        await (await open_store(url).connect()).close()

    asyncio.run(connect())


@pytest.mark.usefixtures("trusted")
def test_a_template_comes_whole_from_a_server_that_is_vouched_for(server, template):
    fetched = asyncio.run(fetch_template(open_store(server), template.folder.name))
    assert fetched.contents == {
        record.name: template.read(record) for record in template.manifest.files()
    }


@pytest.mark.usefixtures("trusted")
def test_an_edit_streams_over_tls_in_the_network_s_own_process(server, template):
    with open_link(f"{server}/{template.folder.name}") as link:
        driven = drive(link, run_s=0.1, encode_s=0.5)
    assert driven.words == ["run"] * 4
    assert driven.summary.num_connections == 2  # one to open the template, one for the edit


def test_an_authority_that_nobody_knows_is_refused_and_the_remedy_is_named(server):
    with pytest.raises(StoreTrustError, match=r"https://127\.0\.0\.1:\d+: nobody .* SSL_CERT_FILE"):
        connect_to(server)


def test_what_the_message_says_is_what_works(server, certificates, monkeypatch):
    with pytest.raises(StoreTrustError) as refused:
        connect_to(server)
    assert "set SSL_CERT_FILE to a file with its authority's certificate" in str(refused.value)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    connect_to(server)


@pytest.mark.usefixtures("trusted")
def test_a_server_under_another_name_than_its_certificate_s_is_refused(server):
    elsewhere = server.replace("127.0.0.1", "localhost")
    with pytest.raises(StoreTrustError, match=r"https://localhost:\d+: .* is not for localhost"):
        connect_to(elsewhere)


def test_the_network_s_process_says_so_too_and_does_not_try_again_and_again(server, template):
    with pytest.raises(StoreTrustError, match="nobody whom this machine trusts"):
        TemplateLink(f"{server}/{template.folder.name}")


def test_a_server_without_tls_is_told_by_its_url(template):
    with own_server(template.folder.parent) as plain:
        url = plain.replace("http://", "https://")
        with pytest.raises(StoreTrustError, match=r"https://127\.0\.0\.1:\d+: .* use http://"):
            connect_to(url)


def test_a_server_with_tls_under_an_http_url_is_told_so(template, certificates, tmp_path):
    with tls_nginx(template.folder.parent, certificates, tmp_path) as server:
        url = server.replace("https://", "http://")
        with pytest.raises(StoreAnswerError, match="use https://"):
            asyncio.run(fetch_template(open_store(url), template.folder.name))


@pytest.mark.usefixtures("trusted")
def test_a_connection_that_is_cut_within_tls_is_made_again(template, certificates):
    def cut(conversation, content):
        is_early = conversation.index < 3 and conversation.num_received > 4000
        return None if is_early else content

    with (
        tls_server(template.folder.parent, certificates) as server,
        recording_proxy(server, cut) as proxy,
        open_link(proxy.url.replace("http://", "https://") + f"/{template.folder.name}") as link,
    ):
        driven = drive(link, run_s=0.2, encode_s=1.0)
    assert driven.words == ["run"] * 4
    assert driven.summary.num_connections > 2


@pytest.mark.usefixtures("trusted")
def test_a_handshake_that_is_cut_counts_as_a_lost_connection(template, certificates):
    with (
        tls_server(template.folder.parent, certificates) as server,
        recording_proxy(server, lambda conversation, content: None) as proxy,
        pytest.raises(StoreLostError, match="cannot be reached"),
    ):
        connect_to(proxy.url.replace("http://", "https://"))


def test_nothing_but_the_machine_s_trust_opens_a_store(server, certificates):
    context = open_store(server).tls
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
