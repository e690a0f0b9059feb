"""Bandwidth traces: read from a file, or synthesized from a few figures of a link.

A trace holds one downlink rate per second, in Mbit/s (10^6 bit/s), constant over its second and
repeated from its start when it ends. A synthesized one says so in its name.
"""

import csv
import math
import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import NormalDist

from intonaco.errors import TraceError

BYTES_PER_MBIT = 1e6 / 8
MAX_SECONDS = 1_000_000
MAX_MBPS = 1e6
HEADER = ("time_s", "throughput_mbps")
P90_Z = NormalDist().inv_cdf(0.9)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Rates in Mbit/s, one a second; never negative, not all zero. Raises TraceError otherwise."""

    name: str
    mbps: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.mbps) <= MAX_SECONDS:
            raise TraceError(f"{self.name} must hold 1..{MAX_SECONDS} s, got {len(self.mbps)}")
        bad = [rate for rate in self.mbps if not 0 <= rate <= MAX_MBPS]
        if bad or not any(self.mbps):
            raise TraceError(
                f"{self.name} must hold rates in 0..{MAX_MBPS:g} Mbit/s and one above 0, got "
                f"{bad[0] if bad else 'only zeros'}"
            )

    @property
    def num_seconds(self) -> int:
        return len(self.mbps)

    @cached_property
    def _sent(self) -> tuple[float, ...]:
        """Bytes that can be sent up to each whole second; one more entry than seconds."""
        return tuple(accumulate((rate * BYTES_PER_MBIT for rate in self.mbps), initial=0.0))

    def bytes_until(self, at_s: float) -> float:
        """Return the bytes that the link can carry from second 0 to `at_s`."""
        rounds, rest = divmod(at_s, self.num_seconds)
        second = min(int(rest), self.num_seconds - 1)
        within = (rest - second) * self.mbps[second] * BYTES_PER_MBIT
        return rounds * self._sent[-1] + self._sent[second] + within

    def time_of(self, num_bytes: float) -> float:
        """Return when the link has carried `num_bytes` since second 0."""
        if num_bytes <= 0:
            return 0.0
        rounds, rest = divmod(num_bytes, self._sent[-1])
        if rest == 0:
            rounds, rest = rounds - 1, self._sent[-1]
        # The second in which the last byte comes: the first whose end carries enough.
        second = bisect_left(self._sent, rest) - 1
        within = (rest - self._sent[second]) / (self.mbps[second] * BYTES_PER_MBIT)
        return rounds * self.num_seconds + second + min(within, 1.0)

    def scaled(self, factor: float) -> "Trace":
        """Return the same trace with every rate multiplied."""
        return Trace(
            name=f"{self.name} x {factor:g}", mbps=tuple(rate * factor for rate in self.mbps)
        )


def read_trace(path: Path) -> Trace:
    """Read a CSV file with the header `time_s,throughput_mbps` and one row a second from 0.

    Raises TraceError for a missing file, another header, or rows out of order.
    """
    rates: list[float] = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            header = tuple(next(rows, ()))
            if header != HEADER:
                raise TraceError(
                    f"{path.name} must begin with {','.join(HEADER)} and go on with rows such as "
                    f"0,12.5, got {','.join(header)!r:.60}"
                )
            for row in rows:
                if len(row) != len(HEADER) or float(row[0]) != len(rates):
                    raise TraceError(
                        f"{path.name} row {len(rates) + 1} must be {len(rates)},RATE, got {row}"
                    )
                rates.append(float(row[1]))
                if len(rates) > MAX_SECONDS:
                    break
    except OSError as error:
        raise TraceError(
            f"cannot read the trace {path} ({error.strerror or error}); check the path"
        ) from None
    except ValueError as error:
        raise TraceError(f"{path.name} row {len(rates) + 1}: {error}; write numbers") from None
    return Trace(name=path.stem, mbps=tuple(rates))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFigures:
    """What a synthesized trace keeps of a link.

    Attributes:
        median_mbps, p10_mbps, p90_mbps: over seconds, outages included.
        peak_mbps: no second is faster.
        memory: rank correlation of neighbouring seconds, 0 for none, near 1 for slow changes.
        fade_share, fade_s: share of seconds in fades, and their mean length; a fade takes a link to
            its slow seconds at once, as a hand before the antenna does.
        outage_share, outage_s: the same for seconds without a byte; the share below 0.1.
    """

    median_mbps: float
    p10_mbps: float
    p90_mbps: float
    peak_mbps: float
    memory: float = 0.8
    fade_share: float = 0.0
    fade_s: float = 3.0
    outage_share: float = 0.0
    outage_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.p10_mbps < self.median_mbps < self.p90_mbps <= self.peak_mbps:
            raise TraceError(
                "a link needs 0 < p10_mbps < median_mbps < p90_mbps <= peak_mbps, got "
                f"{self.p10_mbps}, {self.median_mbps}, {self.p90_mbps}, {self.peak_mbps}"
            )
        if not 0 <= self.memory < 1 or min(self.fade_s, self.outage_s) < 1:
            raise TraceError(
                "memory must lie in [0, 1), fade_s and outage_s at least 1, got "
                f"{self.memory}, {self.fade_s}, {self.outage_s}"
            )
        if not (0 <= self.fade_share <= 0.5 and 0 <= self.outage_share < 0.1):
            raise TraceError(
                "fade_share must lie in [0, 0.5] and outage_share in [0, 0.1), got "
                f"{self.fade_share}, {self.outage_share}"
            )


# Synthetic links of four kinds, in the range of published measurements; no measured data in them.
SYNTHETIC_LINKS = {
    "5g": LinkFigures(
        median_mbps=550,
        p10_mbps=100,
        p90_mbps=1100,
        peak_mbps=1700,
        memory=0.85,
        fade_share=0.08,
        outage_share=0.004,
        outage_s=1.5,
    ),
    "mix": LinkFigures(
        median_mbps=260,
        p10_mbps=35,
        p90_mbps=1200,
        peak_mbps=1700,
        memory=0.9,
        fade_share=0.12,
        fade_s=5,
        outage_share=0.004,
    ),
    "lte": LinkFigures(
        median_mbps=60, p10_mbps=16, p90_mbps=105, peak_mbps=150, memory=0.9, outage_share=0.002
    ),
    "wifi": LinkFigures(
        median_mbps=70, p10_mbps=30, p90_mbps=78, peak_mbps=85, memory=0.6, fade_share=0.08
    ),
}


def synthesize_trace(figures: LinkFigures, *, num_seconds: int, seed: int, name: str) -> Trace:
    """Return a synthetic trace whose median, p10, p90 and outage share are the given ones.

    A Markov chain (a Gaussian walk with `memory`, and fades and outages that begin and end at
    random) decides which seconds are slow; their ranks are then mapped to a log-normal law that is
    split at the median, so the figures hold for each trace, not only on average.
    """
    if num_seconds < 60:
        raise TraceError(
            f"num_seconds must be at least 60 for the figures to hold, got {num_seconds}"
        )
    random_numbers = random.Random(seed)
    outages = _spells(random_numbers, num_seconds, figures.outage_share, figures.outage_s)
    fades = _spells(random_numbers, num_seconds, figures.fade_share, figures.fade_s)
    walk = _walk(random_numbers, num_seconds, figures.memory)
    # Outages rank below fades, fades below all else that is not itself slow.
    order = sorted(
        range(num_seconds),
        key=lambda second: walk[second] - 1e6 * outages[second] - 2.5 * fades[second],
    )
    mbps = [0.0] * num_seconds
    for rank, second in enumerate(order):
        if not outages[second]:
            mbps[second] = _quantile(figures, (rank + 0.5) / num_seconds)
    return Trace(name=f"synthetic {name}", mbps=tuple(mbps))


def measured_figures(mbps: Sequence[float]) -> dict[str, float]:
    """Return median, p10, p90, the share of zero seconds and the rank correlation of neighbours."""
    ordered = sorted(mbps)
    ranks = {rate: rank for rank, rate in enumerate(ordered)}
    return {
        "median_mbps": _at(ordered, 0.5),
        "p10_mbps": _at(ordered, 0.1),
        "p90_mbps": _at(ordered, 0.9),
        "outage_share": sum(rate == 0 for rate in mbps) / len(mbps),
        "memory": _neighbour_correlation([float(ranks[rate]) for rate in mbps]),
    }


def _spells(
    random_numbers: random.Random, num_seconds: int, share: float, mean_s: float
) -> list[bool]:
    """Return a two-state Markov chain that is on for `share` of the time, `mean_s` at once.

    Spells are drawn until the share is met, so that it holds in each trace.
    """
    wanted = round(share * num_seconds)
    spells = [False] * num_seconds
    while sum(spells) < wanted:
        length = 1
        while random_numbers.random() > 1 / mean_s:
            length += 1
        start = random_numbers.randrange(num_seconds)
        for second in range(start, min(num_seconds, start + length)):
            if sum(spells) < wanted:
                spells[second] = True
    return spells


def _walk(random_numbers: random.Random, num_seconds: int, memory: float) -> list[float]:
    noise = math.sqrt(1 - memory**2)
    values = [random_numbers.gauss(0, 1)]
    while len(values) < num_seconds:
        values.append(memory * values[-1] + noise * random_numbers.gauss(0, 1))
    return values


def _quantile(figures: LinkFigures, share: float) -> float:
    z = NormalDist().inv_cdf(share)
    edge = figures.p90_mbps if z > 0 else figures.p10_mbps
    spread = abs(math.log(edge / figures.median_mbps)) / P90_Z
    return min(figures.peak_mbps, figures.median_mbps * math.exp(spread * z))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _neighbour_correlation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    centred = [value - mean for value in values]
    power = sum(value**2 for value in centred)
    return sum(left * right for left, right in pairwise(centred)) / power if power else 0.0
