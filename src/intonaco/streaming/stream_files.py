"""The files of one edit's template: what is here of each, and what was asked for. Fetches nothing."""

from dataclasses import dataclass, field

from intonaco.streaming.requests import FileRange, Holdings
from intonaco.streaming.shared_files import CheckedFile
from intonaco.streaming.store import RangeRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFiles:
    """The progressive files of a template as they fill up.

    Attributes:
        folder: of the template below the store's URL, "" for none.
        coefficients: [step][group].
        tags: entity tags by file name, as the server gave them first.
        asked: by shard and file name, the end of all that was ever asked for it.
    """

    folder: str
    bases: tuple[CheckedFile, ...]
    coefficients: tuple[tuple[CheckedFile, ...], ...]
    tags: dict[str, str] = field(default_factory=dict[str, str])
    asked: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])

    def of(self, part: FileRange) -> CheckedFile:
        if part.step is None:
            return self.bases[part.group]
        return self.coefficients[part.step][part.group]

    def all(self) -> list[CheckedFile]:
        return [*self.bases, *(file for row in self.coefficients for file in row)]

    def restore(self, holdings: Holdings) -> None:
        """Enter what is here into `holdings`, which are empty."""
        holdings.restore(
            coefficients=[file.num_verified_bytes for row in self.coefficients for file in row],
            bases=[file.num_verified_bytes for file in self.bases],
        )

    def request(self, part: FileRange, *, shard: int) -> RangeRequest:
        """Return the request for `part`, and remember that it was asked for `shard`."""
        name = self.of(part).record.name
        self.asked.setdefault(shard, {})[name] = part.stop
        return RangeRequest(
            name=f"{self.folder}/{name}" if self.folder else name,
            start=part.start,
            stop=part.stop,
            tag=self.tags.get(name) or None,
        )

    def is_cut(self, shard: int) -> bool:
        """Return whether something that was asked for this shard is not here, lost or late."""
        here = {file.record.name: file.num_verified_bytes for file in self.all()}
        return any(here[name] < stop for name, stop in self.asked.get(shard, {}).items())
