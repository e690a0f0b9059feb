"""What the controller asks a client to do next, and what it knows of each file's bytes.

Small frozen records; no sockets, no clocks.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Literal

from intonaco.streaming.tables import ShardTable

Part = Literal["basis", "coefficients"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """Bytes start..stop (stop excluded) of one progressive file.

    `step` is None for a basis file, which belongs to a group alone.
    """

    part: Part
    step: int | None
    group: int
    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Ask for these ranges now, in this order, on the one connection.

    Attributes:
        shard: index of the shard that they serve.
        ranges: one or two, a basis range before a coefficient range.
        use_by: when the shard is expected to be needed; later bytes may come too late.
    """

    shard: int
    ranges: tuple[FileRange, ...]
    use_by: float

    @property
    def num_bytes(self) -> int:
        return sum(each.num_bytes for each in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Nothing to ask for now; decide again at `until`, or earlier when something changes."""

    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandon:
    """Close the connection: what is still due is too late to be of use. Then decide again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Nothing that this edit could still use is missing."""


Action = Fetch | Pause | Abandon | Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A range that was asked for and is not whole yet; its first byte cannot come before `at`."""

    shard: int
    range: FileRange
    at: float


@dataclass(slots=True)
class Holdings:
    """Bytes received and promised (asked for) per file, of one edit.

    Responses come in the order of requests, as on one HTTP/1.1 connection, so a count of bytes is
    enough to know what came in.
    """

    table: ShardTable
    coefficients: list[int] = field(init=False)
    bases: list[int] = field(init=False)
    promised_coefficients: list[int] = field(init=False)
    promised_bases: list[int] = field(init=False)
    due: deque[Due] = field(init=False)
    due_bytes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.coefficients = [0] * self.table.num_shards
        self.bases = [0] * self.table.num_groups
        self.promised_coefficients = [0] * self.table.num_shards
        self.promised_bases = [0] * self.table.num_groups
        self.due = deque()

    def restore(self, *, coefficients: list[int], bases: list[int]) -> None:
        """Start with prefixes that the device still holds from an earlier edit."""
        self.coefficients, self.bases = list(coefficients), list(bases)
        self.promised_coefficients, self.promised_bases = list(coefficients), list(bases)

    def promise(self, fetch: Fetch, *, due_at: float) -> None:
        for each in fetch.ranges:
            if each.part == "basis":
                self.promised_bases[each.group] = each.stop
            else:
                self.promised_coefficients[fetch.shard] = each.stop
            self.due.append(Due(shard=fetch.shard, range=each, at=due_at))
            self.due_bytes += each.num_bytes

    def receive(self, num_bytes: int) -> list[Due]:
        """Count bytes that arrived, in the order in which they were asked for; return what they are."""
        found: list[Due] = []
        while num_bytes > 0 and self.due:
            head = self.due[0]
            files, index = (
                (self.bases, head.range.group)
                if head.range.part == "basis"
                else (self.coefficients, head.shard)
            )
            taken = min(num_bytes, head.range.stop - files[index])
            piece = replace(head.range, start=files[index], stop=files[index] + taken)
            found.append(replace(head, range=piece))
            files[index] += taken
            num_bytes -= taken
            self.due_bytes -= taken
            if files[index] >= head.range.stop:
                self.due.popleft()
        return found

    def advance_due(self, early_s: float) -> None:
        """All that is due can come `early_s` earlier than was thought when it was asked for."""
        self.due = deque(replace(each, at=each.at - early_s) for each in self.due)

    def left_bytes(self, due: Due) -> int:
        """Return the bytes of a range on its way that have not arrived."""
        arrived = (
            self.bases[due.range.group]
            if due.range.part == "basis"
            else self.coefficients[due.shard]
        )
        return due.range.stop - max(due.range.start, arrived)

    def forget_due(self) -> None:
        """The connection is gone: what was asked for will not come."""
        self.due.clear()
        self.due_bytes = 0
        self.promised_coefficients = list(self.coefficients)
        self.promised_bases = list(self.bases)

    def level(self, shard: int) -> int | None:
        """Return the level of `shard` that has arrived, or None below the lowest."""
        rows = self.table.shards[shard]
        return rows.level_of(
            coefficient_bytes=self.coefficients[shard], basis_bytes=self.bases[rows.group]
        )

    def missing_bytes(self, shard: int, level: int) -> int:
        """Return the bytes of `level` that have not arrived."""
        rows = self.table.shards[shard]
        return rows.cost_bytes(
            level, coefficient_bytes=self.coefficients[shard], basis_bytes=self.bases[rows.group]
        )

    def unpromised_bytes(self, shard: int, level: int) -> int:
        """Return the bytes of `level` that were not even asked for."""
        rows = self.table.shards[shard]
        return rows.cost_bytes(
            level,
            coefficient_bytes=self.promised_coefficients[shard],
            basis_bytes=self.promised_bases[rows.group],
        )

    def highest_within(self, shard: int, budget_bytes: float) -> int:
        """Return the highest level that `budget_bytes` more, beside what was promised, would buy."""
        rows = self.table.shards[shard]
        return rows.highest_within(
            budget_bytes,
            coefficient_bytes=self.promised_coefficients[shard],
            basis_bytes=self.promised_bases[rows.group],
        )

    def ranges_to(self, shard: int, level: int) -> tuple[FileRange, ...]:
        """Return the ranges that are missing for `level`, the basis first."""
        rows = self.table.shards[shard]
        wanted = rows.levels[level]
        candidates = (
            FileRange(
                part="basis",
                step=None,
                group=rows.group,
                start=self.promised_bases[rows.group],
                stop=wanted.basis_bytes,
            ),
            FileRange(
                part="coefficients",
                step=rows.step,
                group=rows.group,
                start=self.promised_coefficients[shard],
                stop=wanted.coefficient_bytes,
            ),
        )
        return tuple(each for each in candidates if each.num_bytes > 0)
