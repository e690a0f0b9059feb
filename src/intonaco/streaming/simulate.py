"""One edit over a modelled link: the controller's own decisions, no clock, no bytes, no tensors.

Deterministic: the same table, link and settings give the same outcome. Time 0 is the request; the
first shard can run when the prompt is encoded. What a real device adds (memory traffic, a busy
interpreter, congestion below a second) is not in here.
"""

from collections import deque
from dataclasses import dataclass, field

from intonaco.streaming.controller import StreamController
from intonaco.streaming.late import Borrow, GiveUp, GoDense, Run, Wait
from intonaco.streaming.link import LinkModel
from intonaco.streaming.requests import Abandon, Fetch, Finished
from intonaco.streaming.settings import EditPlan, StreamSettings
from intonaco.streaming.simulate_decoder import SimulatedDecoder

LATE_S = 1e-3
NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOutcome:
    """What an edit was like.

    Attributes:
        latency_s: from the request to the end of the last shard.
        stall_s: time in which the device waited for state.
        num_violations: shards that could not begin when it was their turn.
        num_cut: shards that ran before everything asked for them had arrived and was decoded.
        num_bytes: received, used or not.
        levels: per shard; None where it borrowed, ran dense or the method has no levels.
        begins: when each shard began.
        num_borrowed: shards that ran with the state of the step before.
        num_below_floor: shards that ran with less than their floor.
        dense_from_step: first step that ran dense, or None.
    """

    latency_s: float
    stall_s: float = 0.0
    num_violations: int = 0
    num_cut: int = 0
    num_bytes: int = 0
    levels: tuple[int | None, ...] = ()
    begins: tuple[float, ...] = ()
    num_borrowed: int = 0
    num_below_floor: int = 0
    dense_from_step: int | None = None

    @property
    def is_finished(self) -> bool:
        """False where nothing came, nothing could be borrowed and no dense run was possible."""
        return self.latency_s < NEVER


def simulate_edit(
    plan: EditPlan, link: LinkModel, settings: StreamSettings, *, encode_s: float
) -> EditOutcome:
    """Return the outcome of one streamed edit whose first byte may be asked for at time 0."""
    return _Simulation(plan, link, settings, encode_s).run()


@dataclass(slots=True)
class _Sending:
    """A response on its way: when its bytes begin to flow, when they end, how many were counted."""

    begin: float
    finish: float
    num_bytes: int
    delivered: int = 0


@dataclass(slots=True)
class _Record:
    stall_s: float = 0.0
    num_violations: int = 0
    num_cut: int = 0
    num_bytes: int = 0
    levels: list[int | None] = field(default_factory=list[int | None])
    begins: list[float] = field(default_factory=list[float])
    num_borrowed: int = 0
    num_below_floor: int = 0

    def outcome(self, latency_s: float, dense_from_step: int | None = None) -> EditOutcome:
        return EditOutcome(
            latency_s=latency_s,
            stall_s=self.stall_s,
            num_violations=self.num_violations,
            num_cut=self.num_cut,
            num_bytes=self.num_bytes,
            levels=tuple(self.levels),
            begins=tuple(self.begins),
            num_borrowed=self.num_borrowed,
            num_below_floor=self.num_below_floor,
            dense_from_step=dense_from_step,
        )


class _Simulation:
    def __init__(
        self, plan: EditPlan, link: LinkModel, settings: StreamSettings, encode_s: float
    ) -> None:
        self.plan = plan
        self.link = link
        self.settings = settings
        self.controller = StreamController(plan, settings, start_at=encode_s, now=0.0)
        self.decoder = SimulatedDecoder(plan.table, plan.decode_bytes_per_s)
        self.record = _Record()
        self.sending: deque[_Sending] = deque()
        self.now = 0.0
        self.connected_at = 0.0
        self.link_free_at = 0.0
        # The shard that is next, when its turn comes, and when the one before it ends.
        self.shard = 0
        self.turn_at = encode_s
        self.run_ends_at: float | None = None
        self.begins_at: float | None = None
        self.ask_at = max(0.0, encode_s - plan.reconstruct_s[0])

    def run(self) -> EditOutcome:
        while True:
            pause_until = self._drive_link()
            ending = self._drive_device()
            if ending is not None:
                return ending
            self._advance(min(pause_until, self._next_event()))

    def _drive_link(self) -> float:
        """Follow the controller until it pauses; return when to ask again."""
        while True:
            action = self.controller.decide(self.now)
            if isinstance(action, Fetch):
                self._send(action)
            elif isinstance(action, Abandon):
                self._disconnect(self.now)
            elif isinstance(action, Finished):
                return NEVER
            else:
                return action.until

    def _send(self, fetch: Fetch) -> None:
        arrives_at = max(self.now, self.connected_at) + self.link.round_trip_s
        begin = max(arrives_at, self.link_free_at)
        finish = self.link.finish_at(begin, fetch.num_bytes)
        self.link_free_at = finish
        self.sending.append(_Sending(begin=begin, finish=finish, num_bytes=fetch.num_bytes))

    def _disconnect(self, up_at: float) -> None:
        self.sending.clear()
        self.controller.disconnected(self.now)
        reconnect_s = self.settings.reconnect_round_trips * self.link.round_trip_s
        self.connected_at = up_at + reconnect_s
        self.link_free_at = self.now

    def _drive_device(self) -> EditOutcome | None:
        """End and begin shards that are due; return the outcome once the edit has ended."""
        if self.run_ends_at is not None and self.now >= self.run_ends_at:
            self.controller.ended(self.now)
            self.run_ends_at = None
            if self.shard == self.plan.table.num_shards:
                return self.record.outcome(self.now)
        if self.begins_at is None and self.shard < self.plan.table.num_shards:
            ending = self._ask()
            if ending is not None:
                return ending
        if self.begins_at is not None and self.run_ends_at is None and self.now >= self.begins_at:
            self._begin()
        return None

    def _ask(self) -> EditOutcome | None:
        if self.now < self.ask_at:
            return None
        start = self.controller.start(self.shard, self.now)
        if isinstance(start, GoDense | GiveUp):
            self.record.stall_s += max(0.0, self.now - self.turn_at)
            if isinstance(start, GiveUp) or self.plan.dense_step_s is None:
                return self.record.outcome(NEVER)
            step = self.plan.table.shards[self.shard].step
            num_dense = self.plan.table.num_steps - step
            begin = max(self.now, self.turn_at)
            return self.record.outcome(begin + num_dense * self.plan.dense_step_s, step)
        if isinstance(start, Wait):
            self.ask_at = self.now + start.at_most_s
            return None
        self._settle(start)
        return None

    def _settle(self, start: Run | Borrow) -> None:
        """The shard's prefix is fixed; it begins once it is reconstructed and its turn comes.

        Its floor has to be decoded; what of the rest is not decoded by then is left out.
        """
        reconstruct_s = self.plan.reconstruct_s[self.shard]
        ready_at = self.now
        if isinstance(start, Run):
            floor = min(start.level, self.plan.table.shards[self.shard].floor)
            ready_at = self.decoder.ready_at(self.shard, floor, self.now)
        self.begins_at = max(self.turn_at, ready_at + reconstruct_s)
        self.start = start
        late_s = self.begins_at - self.turn_at
        self.record.stall_s += late_s
        self.record.num_violations += late_s > LATE_S
        self.record.begins.append(self.begins_at)
        if isinstance(start, Borrow):
            self.record.num_borrowed += 1
            self.record.levels.append(None)
        else:
            owners = {each.shard for each in self.controller.holdings.due}
            level = self._decoded_level(start.level, self.begins_at - reconstruct_s)
            self.record.num_cut += self.shard in owners or level < start.level
            self.record.num_below_floor += start.is_below_floor
            self.record.levels.append(level)

    def _decoded_level(self, arrived: int, now: float) -> int:
        if self.plan.decode_bytes_per_s is None:
            return arrived
        decoded = self.decoder.level(self.shard, now)
        return arrived if decoded is None else min(arrived, decoded)

    def _begin(self) -> None:
        self.controller.begun(self.shard, self.start, self.now)
        self.run_ends_at = self.turn_at = self.now + self.plan.run_s[self.shard]
        self.begins_at = None
        self.shard += 1
        if self.shard < self.plan.table.num_shards:
            self.ask_at = max(self.now, self.turn_at - self.plan.reconstruct_s[self.shard])

    def _next_event(self) -> float:
        times = [self.link.next_reset(self.now)]
        if self.sending:
            times.append(self.sending[0].finish)
        if self.run_ends_at is not None:
            times.append(self.run_ends_at)
        if self.begins_at is not None:
            times.append(self.begins_at)
        elif self.shard < self.plan.table.num_shards:
            times.append(self.ask_at)
        return min(each for each in times if each > self.now)

    def _advance(self, until: float) -> None:
        """Move time on and hand over the bytes that came in meanwhile."""
        is_reset = until >= self.link.next_reset(self.now)
        self.now = until
        num_arrived = self._arrived()
        if num_arrived:
            self.record.num_bytes += num_arrived
            self.decoder.add(self.controller.received(num_arrived, self.now), self.now)
            if self.begins_at is None:
                # A shard that waits is looked at again as soon as something came in.
                is_waiting = (
                    self.now
                    >= self.turn_at
                    - self.plan.reconstruct_s[min(self.shard, self.plan.table.num_shards - 1)]
                )
                self.ask_at = min(self.ask_at, self.now) if is_waiting else self.ask_at
        if is_reset:
            self._disconnect(self.link.up_again(self.now))

    def _arrived(self) -> int:
        """Return the bytes that came in since the last look, in the order of requests."""
        total = 0
        while self.sending and self.sending[0].finish <= self.now:
            done = self.sending.popleft()
            total += done.num_bytes - done.delivered
        if self.sending:
            head = self.sending[0]
            carried = int(self.link.bytes_between(head.begin, self.now))
            carried = min(carried, head.num_bytes)
            total += max(0, carried - head.delivered)
            head.delivered = max(head.delivered, carried)
        return total
