"""Reads which templates are at a store's URL, by their manifests alone.

For who must know a template before any edit of it; an edit opens it by `intonaco.device.link`.
"""

import asyncio
import hashlib

from intonaco.errors import ManifestError, StoreAnswerError
from intonaco.streaming.store import Connection, Store, open_store, split_url
from intonaco.template.catalog import CATALOG_NAME, MAX_CATALOG_BYTES, CatalogEntry, CatalogList
from intonaco.template.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    TemplateManifest,
    parse_strict,
    read_manifest,
)


def read_manifests(url: str) -> list[TemplateManifest]:
    """Return the manifest of the template at `url`, or those of all templates of the catalog there.

    Raises StoreError for a store that cannot be used or has neither, ManifestError for what is no
    manifest or another than the catalog lists.
    """
    store_url, folder = split_url(url)
    return asyncio.run(_read(open_store(store_url), f"{folder}/" if folder else ""))


async def _read(store: Store, prefix: str) -> list[TemplateManifest]:
    try:
        content = await _fetch(store, prefix + MANIFEST_NAME, MAX_MANIFEST_BYTES)
    except StoreAnswerError:
        # No template, so perhaps a catalog of some.
        return await _read_catalog(store, prefix)
    return [read_manifest(content, name=f"{store.url}/{prefix}{MANIFEST_NAME}")]


async def _read_catalog(store: Store, prefix: str) -> list[TemplateManifest]:
    name = prefix + CATALOG_NAME
    try:
        content = await _fetch(store, name, MAX_CATALOG_BYTES)
    except StoreAnswerError as error:
        raise StoreAnswerError(
            f"{store.url}/{prefix} has neither {MANIFEST_NAME} nor {CATALOG_NAME} ({error}); pass the "
            "URL of a template or of a catalog"
        ) from None
    listed = parse_strict(
        CatalogList, content, name=f"{store.url}/{name}", max_bytes=MAX_CATALOG_BYTES
    )
    connection = await store.connect()
    try:
        return [await _read_listed(connection, store, prefix, one) for one in listed.templates]
    finally:
        await connection.close()


async def _read_listed(
    connection: Connection, store: Store, prefix: str, entry: CatalogEntry
) -> TemplateManifest:
    name = f"{prefix}{entry.folder_name}/{MANIFEST_NAME}"
    content = await connection.fetch(name, max_bytes=MAX_MANIFEST_BYTES)
    if hashlib.sha256(content).hexdigest() != entry.manifest_sha256:
        raise ManifestError(
            f"{store.url}/{name} is another than {CATALOG_NAME} lists; copy the whole catalog to the "
            "store again"
        )
    return read_manifest(content, name=f"{store.url}/{name}")


async def _fetch(store: Store, name: str, max_bytes: int) -> bytes:
    connection = await store.connect()
    try:
        return await connection.fetch(name, max_bytes=max_bytes)
    finally:
        await connection.close()
