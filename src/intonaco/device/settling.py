"""How each shard starts, and with which keys and values; and when its turn is.

Runs in the source's thread, beside the model. Knows the link, reconstruction and the upload; knows
nothing of who waits for a shard.
"""

from dataclasses import dataclass, field

from intonaco.device.link import TemplateLink
from intonaco.device.upload import Upload, Uploaded
from intonaco.errors import IntonacoError, PackError, StreamingError
from intonaco.streaming.protocol import Started, StartWord

# Enough for a first guess to be replaced soon; a single slow shard should not shift all others.
SMOOTHING = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How a shard starts; lengths are of what it was made from."""

    started: Started
    uploaded: Uploaded
    coefficient_bytes: int = 0
    basis_bytes: int = 0
    error: IntonacoError | None = None


@dataclass(slots=True, kw_only=True)
class ShardTimes:
    """Measured times, seconds; planned ones until then.

    Attributes:
        start_at: when the first shard is expected to run, on the system's monotonic clock.
        reconstruct_s: what a shard takes from being asked for to being where the model reads it.
        decode_bytes_per_s: None = not known.
        begun_at: of the shards that the model has begun.
    """

    start_at: float
    run_s: list[float]
    reconstruct_s: list[float]
    decode_bytes_per_s: float | None = None
    begun_at: dict[int, float] = field(default_factory=dict[int, float])

    def due_at(self, shard: int) -> float | None:
        """Return when to settle `shard`, None while the shard before it has not begun."""
        if shard == 0:
            return self.start_at - self.reconstruct_s[0]
        began_at = self.begun_at.get(shard - 1)
        if began_at is None:
            return None
        return began_at + self.run_s[shard - 1] - self.reconstruct_s[shard]

    def turn_at(self, shard: int) -> float:
        """Return when `shard` is expected to be needed; the past where that is now."""
        began_at = self.begun_at.get(shard - 1)
        if shard and began_at is not None:
            return began_at + self.run_s[shard - 1]
        return self.start_at if shard == 0 else 0.0

    def end(self, shard: int, ended_at: float) -> None:
        """Learn from a shard that has ended; one that never began teaches nothing."""
        began_at = self.begun_at.get(shard)
        if began_at is not None:
            self.run_s[shard] += SMOOTHING * (ended_at - began_at - self.run_s[shard])


class Settler:
    """Settles the shards of one edit, in their order.

    Attributes:
        troubles: what went wrong, one line each.
    """

    def __init__(
        self, link: TemplateLink, *, times: ShardTimes, upload: Upload, within_s: float
    ) -> None:
        self.troubles: list[str] = []
        self._link = link
        self._num_groups = len(link.manifest.bases)
        self._times = times
        self._upload = upload
        self._within_s = within_s
        self._held: dict[int, Uploaded] = {}

    def settle(self, shard: int) -> Settled:
        """Ask how `shard` starts, and make its keys and values where it runs."""
        step, group = divmod(shard, self._num_groups)
        try:
            started = self._link.start(shard, within_s=self._within_s)
            if started.word != "run":
                is_borrowed = started.word == "borrow"
                return Settled(
                    started=started, uploaded=self._held[group] if is_borrowed else Uploaded()
                )
            return self._made(started, group)
        except (StreamingError, PackError) as error:
            # The link or reconstruction is gone, or the bytes make no state: as if nothing more came.
            self.troubles.append(str(error))
            return self._without_link(shard, step, group, error)

    def _made(self, started: Started, group: int) -> Settled:
        """Return the shard with keys and values. Raises StreamingError or PackError.

        What cannot be decoded by the shard's turn is left for the next step of the same blocks: a
        prefix of a prefix decodes as well.
        """
        # Before the slot of the shard that is still on its way could be written again.
        self._upload.wait_sent()
        made = self._link.reconstruction.make(
            started.shard,
            coefficient_bytes=started.coefficient_bytes,
            basis_bytes=started.basis_bytes,
            coefficient_floor_bytes=started.coefficient_floor_bytes,
            basis_floor_bytes=started.basis_floor_bytes,
            # The copy to the model's device follows, and is to end by the shard's turn.
            turn_at=self._times.turn_at(started.shard) - self._upload.copy_s,
        )
        if made.trouble:
            self.troubles.append(made.trouble)
        self._times.reconstruct_s[started.shard] = made.seconds + self._upload.copy_s
        self._times.decode_bytes_per_s = made.bytes_per_s or self._times.decode_bytes_per_s
        uploaded = self._upload.send(made.blocks)
        self._held[group] = uploaded
        return Settled(
            started=started,
            uploaded=uploaded,
            coefficient_bytes=made.coefficient_bytes,
            basis_bytes=made.basis_bytes,
        )

    def _without_link(self, shard: int, step: int, group: int, error: IntonacoError) -> Settled:
        """A step that began is finished with the state of the step before; none begins so."""
        may_borrow = group > 0 and step > 0 and group in self._held
        word: StartWord = "borrow" if may_borrow else "dense"
        started = Started(
            shard=shard, word=word, level=None, coefficient_bytes=0, basis_bytes=0, is_cut=False
        )
        uploaded = self._held[group] if may_borrow else Uploaded()
        return Settled(started=started, uploaded=uploaded, error=error)
