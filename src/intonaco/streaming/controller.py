"""Decides, during one edit, when to ask the link for more and how each shard starts.

What is asked for is chosen in `choosing.py`. No sockets, no clocks: every method takes the time
`now`, in seconds on a clock that never runs back. The device runtime and the simulator drive the same
object:

    requested -> decide(now) until it pauses     received -> received(num_bytes, now)
    a shard's turn -> start(shard, now)          it runs -> begun(shard, now), ended(now)

One object serves one edit.
"""

from intonaco.streaming.choosing import Outlook
from intonaco.streaming.decode_queue import DecodeQueue
from intonaco.streaming.late import Borrow, Run, Situation, Start, decide_start
from intonaco.streaming.rate import RateEstimate
from intonaco.streaming.requests import Abandon, Action, Due, Fetch, Finished, Holdings, Pause
from intonaco.streaming.settings import EditPlan, StreamSettings
from intonaco.streaming.window import Progress

SHORTEST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
IDLE_PAUSE_S = 0.01
# One round trip is exact; a little more, because a rate that is thought too low asks too late.
EARLY_ROUND_TRIPS = 1.25
# However near the server: a new connection's first packets wait in the queue that holds what is
# abandoned, or are lost there, which costs a second.
SHORTEST_RECONNECT_S = 0.1


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
        self._reached_at: dict[int, float] = {}
        self._active_until = now
        self._last_byte_at = now
        self._connects_until = now
        self._edit_level: int | None = None
        self._next_open = 0
        self._decoding = DecodeQueue(
            bytes_per_s=plan.decode_bytes_per_s, at=now, left_bytes=plan.undecoded_bytes
        )

    def decide(self, now: float) -> Action:
        """Return what to do with the link now; call again until it answers Pause or Finished."""
        self._count_silence(now)
        if self._should_abandon():
            return Abandon()
        if self.holdings.due and not self._is_time_for_more():
            fetch = self._floor_ahead(now)
            return (
                Pause(until=now + self._pause_s()) if fetch is None else self._promise(fetch, now)
            )
        fetch = self._next_fetch(now)
        if fetch is not None:
            return self._promise(fetch, now)
        if self.holdings.due or self._next_open < self.plan.table.num_shards:
            return Pause(until=now + IDLE_PAUSE_S)
        return Finished()

    def received(self, num_bytes: int, now: float) -> list[Due]:
        """Bytes arrived, in the order in which they were asked for; return what they are."""
        self._decoding = self._decoding.add(num_bytes, now)
        early_s = self.holdings.due[0].at - now if self.holdings.due else 0.0
        if early_s > 0:
            # The round trip is shorter than was thought. Active time begins with these bytes, so
            # they took none of it: counted, they would make any rate look higher.
            self.holdings.advance_due(early_s)
        else:
            self.rate = self.rate.add(num_bytes, self._active_s(now))
        self._active_until = max(now, self._active_until)
        self._last_byte_at = now
        return self.holdings.receive(num_bytes)

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
        floor_bytes = self.holdings.missing_bytes(shard, rows.floor)
        is_due = any(each.shard == shard for each in self.holdings.due)
        start = decide_start(
            Situation(
                level=self.holdings.level(shard),
                floor=rows.floor,
                is_complete=not is_due,
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

    def _count_silence(self, now: float) -> None:
        """Bytes are due and none came: that is what a slower link looks like."""
        active_s = self._active_s(now)
        if active_s > 0:
            self.rate = self.rate.add(0, active_s)
            self._active_until = now

    def _active_s(self, now: float) -> float:
        """Return the time, not counted yet, in which bytes were due."""
        if not self.holdings.due:
            return 0.0
        return max(0.0, now - max(self._active_until, self.holdings.due[0].at))

    def _should_abandon(self) -> bool:
        """What comes first serves shards that run already, and takes longer than a new connection."""
        late_bytes = 0
        for each in self.holdings.due:
            if each.shard >= self._next_open:
                break
            late_bytes += self.holdings.left_bytes(each)
        reconnect_s = (self.settings.reconnect_round_trips + 1) * self.round_trip_s
        reconnect_s = max(reconnect_s, SHORTEST_RECONNECT_S)
        return late_bytes / self.rate.bytes_per_s > 2 * reconnect_s

    def _is_time_for_more(self) -> bool:
        """A request should be on its way one round trip before the link falls idle."""
        return self._may_ask_ahead and self._busy_s() <= self._lead_s

    @property
    def _may_ask_ahead(self) -> bool:
        """Whether a request may join those on their way; each has one or two ranges."""
        max_requests = self.settings.max_requests
        return max_requests > 1 and len(self.holdings.due) < 2 * max_requests

    def _floor_ahead(self, now: float) -> Fetch | None:
        """Return a floor that is at risk, to be asked for while others are still on their way.

        It will be wanted whatever the link does, and a rate that is thought too low, as after an
        outage, would ask for it a round trip too late.
        """
        if self.settings.is_per_edit or not self._may_ask_ahead:
            return None
        return self._outlook(now).urgent_floor()

    @property
    def _lead_s(self) -> float:
        """How long before the link falls idle the next request goes out."""
        return EARLY_ROUND_TRIPS * self.round_trip_s + SHORTEST_PAUSE_S

    def _busy_s(self) -> float:
        return self.holdings.due_bytes / self.rate.bytes_per_s

    def _pause_s(self) -> float:
        return min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, self._busy_s() - self._lead_s))

    def _first_byte_at(self, now: float) -> float:
        """Return when the next request's first byte can come."""
        return max(now, self._connects_until) + max(self._busy_s(), self.round_trip_s)

    def _promise(self, fetch: Fetch, now: float) -> Fetch:
        due_at = max(now, self._connects_until) + self.round_trip_s
        if not self.holdings.due:
            self._last_byte_at = due_at
        self.holdings.promise(fetch, due_at=due_at)
        return fetch

    def _next_fetch(self, now: float) -> Fetch | None:
        outlook = self._outlook(now)
        if not self.settings.is_per_edit:
            return outlook.next_fetch()
        if self._edit_level is None:
            self._edit_level = outlook.level_of_edit()
        return outlook.next_of_edit(self._edit_level)

    def _outlook(self, now: float) -> Outlook:
        return Outlook(
            plan=self.plan,
            settings=self.settings,
            holdings=self.holdings,
            progress=self.progress,
            rate_bytes_per_s=self.rate.bytes_per_s,
            first=self._next_open,
            now=now,
            first_byte_at=self._first_byte_at(now),
            backlog_bytes=self._decoding.left_at(now) + self.holdings.due_bytes,
        )
