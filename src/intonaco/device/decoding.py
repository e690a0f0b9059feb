"""Decodes prefixes a slice at a time, so that decoding can stop at a shard's turn like a transfer."""

from intonaco.device.link import TemplateLink
from intonaco.template.reconstruct import PackSource

# Short against a shard's run time, long against the cost of a call.
SLICE_BYTES = 2048


class Decoding:
    """What has been decoded of a template's files, out of what has arrived."""

    def __init__(self, link: TemplateLink, pack: PackSource) -> None:
        self._link = link
        self._pack = pack

    def up_to(self, step: int | None, group: int, num_bytes: int) -> None:
        """Decode a file's first `num_bytes`, which have arrived. Raises PackError."""
        manifest = self._link.manifest
        record = manifest.bases[group] if step is None else manifest.coefficients[step][group]
        have = self._pack.num_verified_bytes(step, group)
        if num_bytes > have:
            self._pack.feed(step, group, self._link.read_range(record, have, num_bytes))

    def one_slice(self, group: int, available_bytes: int) -> bool:
        """Decode some more of a basis, up to a chunk's end; return whether anything was left."""
        record = self._link.manifest.bases[group]
        have = self._pack.num_verified_bytes(None, group)
        wanted = record.longest_cut(min(available_bytes, have + SLICE_BYTES))
        if wanted <= have:
            wanted = next((end for end in record.ends if have < end <= available_bytes), have)
        self.up_to(None, group, wanted)
        return wanted > have

    def ahead(self) -> bool:
        """Decode a slice of the basis that lags most behind what has arrived of it, if one does."""
        progress = self._link.progress
        if progress is None or not progress.bases:
            return False
        share, group = min(
            (self._pack.num_verified_bytes(None, group) / max(1, num_bytes), group)
            for group, num_bytes in enumerate(progress.bases)
        )
        return share < 1 and self.one_slice(group, progress.bases[group])
