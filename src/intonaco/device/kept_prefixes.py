"""What the device keeps of a template's files from one edit to the next, if it keeps anything."""

import hashlib

from intonaco.streaming.prefix_cache import PrefixCache
from intonaco.streaming.stream_files import StreamFiles
from intonaco.template.manifest import FileRecord


class KeptPrefixes:
    """Reads and writes a cache of prefixes; without one nothing is there and nothing is kept.

    Attributes:
        trouble: why something could not be kept, "" if nothing went wrong.
    """

    def __init__(self, cache: PrefixCache | None) -> None:
        self.trouble = ""
        self._cache = cache

    def whole(self, record: FileRecord) -> bytes | None:
        """Return a file whose hash is known; None where it is not here whole."""
        if self._cache is None:
            return None
        kept = self._cache.read(record.name, max_bytes=record.num_bytes)
        return kept if is_whole(kept, record) else None

    def restore(self, files: StreamFiles) -> None:
        """Fill `files`, which are empty, with what is kept of them."""
        if self._cache is None:
            return
        for file in files.all():
            kept = self._cache.read(file.record.name, max_bytes=file.record.num_bytes)
            if kept:
                file.restore(kept)

    def keep_prefixes(self, files: StreamFiles) -> None:
        """Keep what is new in `files`."""
        if self._cache is None:
            return
        for file in files.all():
            if file.num_verified_bytes > self._cache.length(file.record.name):
                self.keep(file.record.name, file.prefix())

    def keep(self, name: str, content: bytes) -> None:
        """Keep a file or a prefix; a full disk costs the next edit, not this one."""
        if self._cache is None:
            return
        try:
            self._cache.write(name, content)
        except OSError as error:
            self.trouble = (
                f"the cache of prefixes cannot be written ({error.strerror or error}); the next edit "
                "fetches them again"
            )


def is_whole(content: bytes, record: FileRecord) -> bool:
    """Return whether `content` is the file that the manifest means."""
    is_long = len(content) == record.num_bytes
    return is_long and hashlib.sha256(content).hexdigest() == record.sha256
