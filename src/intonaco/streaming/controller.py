"""Decides, during one edit, what to ask the link for and how each shard starts.

No sockets, no clocks: every method takes the time `now`, in seconds on a clock that never runs back.
The device runtime and the simulator drive the same object:

    requested -> decide(now) until it pauses     received -> received(num_bytes, now)
    a shard's turn -> start(shard, now)          it runs -> begun(shard, now), ended(now)

One object serves one edit.
"""

from intonaco.streaming.late import (
    Borrow,
    Run,
    Situation,
    Start,
    decide_start,
)
from intonaco.streaming.rate import RateEstimate
from intonaco.streaming.requests import Abandon, Action, Fetch, Finished, Holdings, Pause
from intonaco.streaming.settings import EditPlan, StreamSettings
from intonaco.streaming.window import Progress, need_time, transfer_window

SHORTEST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
# A request for less than this part of the smallest slice costs more in headers than it brings.
CRUMBS_PER_SLICE = 8


class StreamController:
    """What one edit knows of its link and its progress, and what follows from it.

    Args:
        plan: template and device.
        start_at: when the first shard can run at the earliest: the end of prompt encoding.
        now: the time at which the edit may ask for its first byte.
    """

    def __init__(
        self, plan: EditPlan, settings: StreamSettings, *, start_at: float, now: float
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.holdings = Holdings(plan.table)
        self.rate = RateEstimate(settings=settings.rate)
        self.progress = Progress(start_at=start_at)
        self.round_trip_s = settings.round_trip_s
        self.num_borrowed = 0
        self._opened_at: dict[int, float] = {}
        self._closed: set[int] = set()
        self._reached_at: dict[int, float] = {}
        self._active_until = now
        self._last_byte_at = now
        self._connects_until = now
        self._edit_level: int | None = None
        self._next_open = 0

    def decide(self, now: float) -> Action:
        """Return what to do with the link now; call again until it answers Pause or Finished."""
        self._count_silence(now)
        if self._should_abandon():
            return Abandon()
        if len(self.holdings.due) and not self._is_time_for_more():
            return Pause(until=now + self._pause_s())
        fetch = self._next_fetch(now)
        if fetch is not None:
            return self._promise(fetch, now)
        if self.holdings.due or self._next_open < self.plan.table.num_shards:
            return Pause(until=now + LONGEST_PAUSE_S)
        return Finished()

    def received(self, num_bytes: int, now: float) -> None:
        """Bytes arrived, in the order in which they were asked for."""
        self.rate = self.rate.add(num_bytes, max(0.0, now - self._active_until))
        self._active_until = max(now, self._active_until)
        self._last_byte_at = now
        self.holdings.receive(num_bytes)

    def measured_round_trip(self, round_trip_s: float) -> None:
        """Take a measured time from a request on an idle link to its first byte."""
        self.round_trip_s = 0.7 * self.round_trip_s + 0.3 * round_trip_s

    def disconnected(self, now: float) -> None:
        """The connection is gone; what was due has to be asked for again."""
        self.holdings.forget_due()
        self._active_until = now
        self._connects_until = now + self.settings.reconnect_round_trips * self.round_trip_s

    def start(self, shard: int, now: float) -> Start:
        """Return how `shard`, whose turn it is, begins; after Wait, ask again.

        Ask one reconstruction before the shard can run: with Run or Borrow its prefix is settled,
        and nothing more is asked for it.
        """
        reached_at = self._reached_at.setdefault(shard, now)
        rows = self.plan.table.shards[shard]
        floor_bytes = self.holdings.missing_bytes(shard, 0)
        due = any(owner == shard for owner, _ in self.holdings.due)
        start = decide_start(
            Situation(
                level=self.holdings.level(shard),
                is_complete=not due,
                is_first_of_step=rows.group == 0,
                can_borrow=rows.step > 0,
                num_borrowed=self.num_borrowed,
                waited_s=now - reached_at,
                shard_run_s=self.plan.run_s[shard],
                floor_in_s=floor_bytes / self.rate.bytes_per_s,
                silent_s=now - self._last_byte_at if self.holdings.due else 0.0,
                dense_extra_s=self.plan.dense_extra_s(rows.step),
            ),
            self.settings.late,
        )
        if isinstance(start, Run | Borrow):
            self._next_open = shard + 1
        return start

    def begun(self, shard: int, start: Run | Borrow, now: float) -> None:
        """`shard` runs from now on, as `start` said."""
        self.num_borrowed = self.num_borrowed + 1 if isinstance(start, Borrow) else 0
        self.progress = self.progress.begun(shard, now)

    def ended(self, now: float) -> None:
        """The running shard ended."""
        self.progress = self.progress.ended(self.plan.run_s, now)

    def need_at(self, shard: int, now: float) -> float:
        return need_time(self.progress, self.plan.run_s, shard, now)

    def _count_silence(self, now: float) -> None:
        """Bytes are due and none came: that is what a slower link looks like."""
        if self.holdings.due and now > self._active_until:
            self.rate = self.rate.add(0, now - self._active_until)
            self._active_until = now

    def _should_abandon(self) -> bool:
        """What is due serves shards that run already, and takes longer than a new connection."""
        due = self.holdings.due
        if not due or any(shard >= self._next_open for shard, _ in due):
            return False
        reconnect_s = (self.settings.reconnect_round_trips + 1) * self.round_trip_s
        return self.holdings.due_bytes / self.rate.bytes_per_s > 2 * reconnect_s

    def _is_time_for_more(self) -> bool:
        """A request should be on its way one round trip before the link falls idle."""
        due = self.holdings.due
        if self.settings.max_requests == 1 or len(due) >= 2 * self.settings.max_requests:
            return False
        return self._busy_s() <= self.round_trip_s

    def _busy_s(self) -> float:
        return self.holdings.due_bytes / self.rate.bytes_per_s

    def _pause_s(self) -> float:
        return min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, self._busy_s() - self.round_trip_s))

    def _first_byte_at(self, now: float) -> float:
        """Return when the next request's first byte can come."""
        return max(now, self._connects_until) + max(self._busy_s(), self.round_trip_s)

    def _promise(self, fetch: Fetch, now: float) -> Fetch:
        if not self.holdings.due:
            self._active_until = max(now, self._connects_until) + self.round_trip_s
            self._last_byte_at = self._active_until
        self.holdings.promise(fetch)
        return fetch

    def _next_fetch(self, now: float) -> Fetch | None:
        first, num_shards = self._next_open, self.plan.table.num_shards
        if self.settings.is_per_edit:
            return self._next_of_edit(first, now)
        for shard in range(first, min(num_shards, first + self.settings.num_early_floors)):
            if self.holdings.unpromised_bytes(shard, 0) > 0:
                return self._fetch(shard, 0, now)
        for _ in range(2):
            for shard in range(first, num_shards):
                fetch = self._better(shard, now)
                if fetch is not None:
                    return fetch
            # Every shard had its window and time is left: what is left is shared out once more.
            self._closed.clear()
            self._opened_at.clear()
        return None

    def _better(self, shard: int, now: float) -> Fetch | None:
        """Return the next slice of `shard`, or None once its window is used up."""
        if shard in self._closed:
            return None
        first_byte_at = self._first_byte_at(now)
        opened_at = self._opened_at.setdefault(shard, first_byte_at)
        window_s = transfer_window(
            self.settings.window,
            need_at=self.need_at(shard, now),
            now=opened_at,
            reconstruct_s=self.plan.reconstruct_s[shard],
            shard_run_s=self.plan.run_s[shard],
        )
        budget = self.rate.bytes_per_s * (opened_at + window_s - first_byte_at)
        level = self.holdings.highest_within(shard, max(0.0, budget))
        missing = self.holdings.unpromised_bytes(shard, level)
        is_crumb = missing < self.settings.smallest_slice_bytes // CRUMBS_PER_SLICE
        if missing <= 0 or missing > budget or (is_crumb and level < self._full_level(shard)):
            self._closed.add(shard)
            return None
        return self._fetch(shard, level, now)

    def _full_level(self, shard: int) -> int:
        return len(self.plan.table.shards[shard].levels) - 1

    def _next_of_edit(self, first: int, now: float) -> Fetch | None:
        if self._edit_level is None:
            self._edit_level = self._level_of_edit(now)
        for shard in range(first, self.plan.table.num_shards):
            level = min(self._edit_level, self._full_level(shard))
            if self.holdings.unpromised_bytes(shard, level) > 0:
                return self._fetch(shard, level, now)
        return None

    def _level_of_edit(self, now: float) -> int:
        """Return the highest level for all shards that fits the whole edit at the present rate."""
        table = self.plan.table
        window_s = self.settings.window.gamma * (
            self.need_at(table.num_shards - 1, now) - self._first_byte_at(now)
        )
        budget = self.rate.bytes_per_s * window_s
        highest = min(len(shard.levels) for shard in table.shards) - 1
        fitting = [
            level
            for level in range(highest + 1)
            if table.bytes_at([level] * table.num_shards) <= budget
        ]
        return max(fitting, default=0)

    def _fetch(self, shard: int, level: int, now: float) -> Fetch:
        """Return the request for the next slice on the way to `level`."""
        if self.settings.slice_s is not None:
            slice_bytes = max(
                self.settings.smallest_slice_bytes,
                int(self.rate.bytes_per_s * self.settings.slice_s),
            )
            if self.holdings.unpromised_bytes(shard, level) > slice_bytes:
                level = min(level, self._slice_level(shard, slice_bytes))
        return Fetch(
            shard=shard,
            ranges=self.holdings.ranges_to(shard, level),
            use_by=self.need_at(shard, now),
        )

    def _slice_level(self, shard: int, slice_bytes: int) -> int:
        """Return the highest level within a slice, or the next one that asks for any byte."""
        level = self.holdings.highest_within(shard, slice_bytes)
        while self.holdings.unpromised_bytes(shard, level) <= 0:
            level += 1
        return level
