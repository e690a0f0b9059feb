"""Manifests read from a store over HTTP: of one template, of a whole catalog, and of neither."""

import pytest

from intonaco.errors import ManifestError, StoreAnswerError
from intonaco.streaming.listing import read_manifests
from intonaco.template.catalog import Catalog
from tests.support.catalog_servers import own_server, small_catalog
from tests.support.templates import small_packed

OTHER_ID = "fedcba9876543210" * 4


@pytest.fixture
def catalog(tmp_path):
    """A folder of the store's root with two templates."""
    root = tmp_path / "root" / "dolls"
    small_catalog(root)
    packed = small_packed(OTHER_ID, seed=1)
    Catalog(root).add(packed.manifest, packed.contents)
    return root


@pytest.fixture
def url(catalog):
    with own_server(catalog) as at:
        yield at


def test_a_template_and_its_catalog_are_read_by_their_urls(catalog, url):
    entries = Catalog(catalog).entries()
    found = read_manifests(url)

    assert {one.template_id for one in found} == {entry.template_id for entry in entries}
    assert read_manifests(f"{url}/{OTHER_ID[:16]}") == [
        one for one in found if one.template_id == OTHER_ID
    ]


def test_a_url_with_neither_says_what_it_should_be(url):
    with pytest.raises(StoreAnswerError, match=r"has neither manifest\.json nor catalog\.json"):
        read_manifests(f"{url}/nothing")


def test_a_manifest_that_the_catalog_does_not_list_is_refused(catalog, url):
    path = catalog / OTHER_ID[:16] / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b"a doll", b"a girl"))

    with pytest.raises(ManifestError, match=r"manifest\.json is another than catalog\.json lists"):
        read_manifests(url)


def test_a_folder_of_this_machine_is_read_by_its_url(catalog):
    assert len(read_manifests(catalog.as_uri())) == 2
