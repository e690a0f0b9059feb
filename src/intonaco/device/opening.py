"""Opens a template in the network's process: what an edit needs whole is fetched, into shared memory.

Manifest, picture, mask and latents come here; the progressive files are only laid out, and filled with
what the device has kept of them.
"""

import asyncio
import mmap
from dataclasses import dataclass

from intonaco.device.kept_prefixes import KeptPrefixes, is_whole
from intonaco.errors import PackDamagedError, StoreLostError
from intonaco.streaming.shared_files import CheckedFile, Layout, Lengths, map_shared, whole_files
from intonaco.streaming.store import Connection, Store
from intonaco.streaming.stream_files import StreamFiles
from intonaco.template.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    FileRecord,
    TemplateManifest,
    read_manifest,
)
from intonaco.template.pack_format import Role

NUM_ATTEMPTS = 3
RETRY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTemplate:
    """A template whose files lie in shared memory.

    Attributes:
        num_manifest_bytes: the manifest lies at the start.
        num_bytes: of all files.
    """

    manifest: TemplateManifest
    files: StreamFiles
    lengths: Lengths
    num_manifest_bytes: int
    num_bytes: int

    def publish_lengths(self) -> None:
        """Let reconstruction see what has arrived."""
        for index, file in enumerate(self.files.all()):
            self.lengths.raise_to(index, file.num_verified_bytes)


class Opening:
    """Fetches whole files of one template, over one connection as long as that holds.

    Attributes:
        sent: everything that was sent, as `Connection.sent`; complete once it is closed.
    """

    def __init__(self, store: Store, kept: KeptPrefixes) -> None:
        self.sent: list[str] = []
        self.num_connections = 0
        self._store = store
        self._kept = kept
        self._connection: Connection | None = None

    async def open(self, folder: str, shared: int) -> OpenTemplate:
        """Open the template in `folder` below the store's URL ("" for none).

        Args:
            shared: the descriptor of the memory that its files come to lie in.

        Raises StoreError, ManifestError or PackError where it cannot be had.
        """
        prefix = f"{folder}/" if folder else ""
        content = await self._fetch(prefix + MANIFEST_NAME, MAX_MANIFEST_BYTES)
        manifest = read_manifest(content, name=f"{self._store.url}/{prefix}{MANIFEST_NAME}")
        layout = Layout.of(manifest, num_manifest_bytes=len(content))
        memory = map_shared(shared, layout.num_bytes, is_writer=True)
        memory[: len(content)] = content
        for record in whole_files(manifest):
            whole = await self._whole(prefix, record)
            start = layout.offsets[record.name]
            memory[start : start + len(whole)] = whole
        files = _checked_files(manifest, folder, memory, layout)
        self._kept.restore(files)
        return OpenTemplate(
            manifest=manifest,
            files=files,
            lengths=Lengths(memory, layout),
            num_manifest_bytes=len(content),
            num_bytes=layout.num_bytes,
        )

    async def close(self) -> None:
        """End the connection; may be called again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.sent += connection.sent
            await connection.close()

    async def _fetch(self, name: str, max_bytes: int) -> bytes:
        """Return a whole file, in a few attempts over the link. Raises StoreError."""
        for attempt in range(NUM_ATTEMPTS):
            try:
                if self._connection is None:
                    self._connection = await self._store.connect()
                    self.num_connections += 1
                return await self._connection.fetch(name, max_bytes=max_bytes)
            except StoreLostError:
                await self.close()
                if attempt + 1 == NUM_ATTEMPTS:
                    raise
                await asyncio.sleep(RETRY_S * 2**attempt)
        raise StoreLostError(f"{self._store.url}: {name} cannot be fetched; try again")

    async def _whole(self, prefix: str, record: FileRecord) -> bytes:
        """Return a file whose hash is known, from what the device has kept where it is there."""
        kept = self._kept.whole(record)
        if kept is not None:
            return kept
        for _ in range(2):
            content = await self._fetch(prefix + record.name, record.num_bytes)
            if is_whole(content, record):
                self._kept.keep(record.name, content)
                return content
        raise PackDamagedError(
            f"{prefix}{record.name}: its SHA-256 is not the manifest's, twice; the store's copy is bad"
        )


def _checked_files(
    manifest: TemplateManifest, folder: str, memory: mmap.mmap, layout: Layout
) -> StreamFiles:
    return StreamFiles(
        folder=folder,
        bases=tuple(
            CheckedFile(record, Role.BASIS, memory, layout.offsets[record.name])
            for record in manifest.bases
        ),
        coefficients=tuple(
            tuple(
                CheckedFile(record, Role.COEFFICIENTS, memory, layout.offsets[record.name])
                for record in row
            )
            for row in manifest.coefficients
        ),
    )
