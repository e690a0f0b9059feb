"""Chooses what to ask for next: which shard's bytes, and up to which level.

A pure function of one moment of an edit. Whether it is time to ask at all is the controller's matter.
"""

from dataclasses import dataclass

from intonaco.streaming.allocate import reachable_grade, uniform_level, urgent_floor
from intonaco.streaming.requests import Fetch, Holdings
from intonaco.streaming.settings import EditPlan, StreamSettings
from intonaco.streaming.slices import is_worth_asking, next_slice
from intonaco.streaming.window import Progress, Window, need_time, need_times, transfer_window


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """One moment of an edit, as far as a choice depends on it.

    Attributes:
        holdings: read, never changed.
        first: the first shard for which anything may still be asked.
        first_byte_at: when the first byte of a request that is sent now can come.
        backlog_bytes: arrived or on their way, and not decoded yet.
    """

    plan: EditPlan
    settings: StreamSettings
    holdings: Holdings
    progress: Progress
    rate_bytes_per_s: float
    first: int
    now: float
    first_byte_at: float
    backlog_bytes: float

    def next_fetch(self) -> Fetch | None:
        """Return a floor at risk, or what buys the highest quality; None if all that fits is asked."""
        windows = self._windows()
        urgent = self._urgent_floor(windows)
        if urgent is not None:
            return urgent
        budgets = self._budgets(windows, 1.0)
        for index in range(len(windows)):
            shard = self.first + index
            grade = reachable_grade(self.holdings, first=shard, budgets=budgets[index:])
            level = self.plan.table.grades[grade][shard]
            if is_worth_asking(
                self.holdings, shard, level, smallest_bytes=self.settings.smallest_slice_bytes
            ):
                return self._fetch(shard, level)
        return None

    def urgent_floor(self) -> Fetch | None:
        """Return the first floor to ask for before anything better; None if none is at risk."""
        return self._urgent_floor(self._windows())

    def next_of_edit(self, level: int) -> Fetch | None:
        """Return the next request on the way to one level for all shards, or their floors."""
        for shard in range(self.first, self.plan.table.num_shards):
            wanted = max(self.plan.table.shards[shard].floor, level)
            if self.holdings.unpromised_bytes(shard, wanted) > 0:
                return self._fetch(shard, wanted)
        return None

    def level_of_edit(self) -> int:
        """Return the highest level for all shards that fits the whole edit at the present rate."""
        table = self.plan.table
        window_s = self._need_at(table.num_shards - 1) - self.first_byte_at
        return uniform_level(table, self.settings.window.gamma * self.rate_bytes_per_s * window_s)

    def _urgent_floor(self, windows: list[Window]) -> Fetch | None:
        budgets = self._budgets(windows, self.settings.floor_caution)
        left = self.plan.table.num_groups - self.first
        urgent = None
        if left > 0:
            caution = self.settings.first_step_floor_caution
            budgets_of_step = self._budgets(windows[:left], caution)
            urgent = urgent_floor(self.holdings, first=self.first, budgets=budgets_of_step)
        if urgent is None:
            urgent = urgent_floor(self.holdings, first=self.first, budgets=budgets)
        return None if urgent is None else self._fetch(urgent, self.plan.table.shards[urgent].floor)

    def _budgets(self, windows: list[Window], caution: float) -> list[float]:
        """Return the bytes that can be there for each shard at this part of the present rate."""
        return [
            window.budget_bytes(
                caution * self.rate_bytes_per_s,
                decode_bytes_per_s=self.plan.decode_bytes_per_s,
                backlog_bytes=self.backlog_bytes,
            )
            for window in windows
        ]

    def _windows(self) -> list[Window]:
        """Return the window of each shard from `first` on."""
        windows: list[Window] = []
        needs = need_times(self.progress, self.plan.run_s, self.first, self.now)
        for shard, need_at in enumerate(needs, start=self.first):
            reconstruct_s = self.plan.reconstruct_s[shard]
            if not self.settings.has_carry_over:
                opens_at = need_at - reconstruct_s - self.plan.run_s[shard]
                if shard > self.first and self.first_byte_at < opens_at:
                    break
            transfer_s, decode_s = (
                transfer_window(
                    self.settings.window, need_at=need_at, now=at, reconstruct_s=reconstruct_s
                )
                for at in (self.first_byte_at, self.now)
            )
            windows.append(Window(transfer_s=transfer_s, decode_s=decode_s))
        return windows

    def _need_at(self, shard: int) -> float:
        return need_time(self.progress, self.plan.run_s, shard, self.now)

    def _fetch(self, shard: int, level: int) -> Fetch:
        """Return the request for the next slice on the way to `level`."""
        settings = self.settings
        slice_bytes = None
        if settings.slice_s is not None:
            wanted = int(self.rate_bytes_per_s * settings.slice_s)
            slice_bytes = max(settings.smallest_slice_bytes, wanted)
        return Fetch(
            shard=shard,
            ranges=next_slice(self.holdings, shard, level, slice_bytes=slice_bytes),
            use_by=self._need_at(shard),
        )
