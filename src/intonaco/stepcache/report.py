"""What a generation's step cache did, and what to say where it did nothing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from intonaco.stepcache.controller import StepRecord
from intonaco.stepcache.policies import Adaptive, OnlineDelta, Planned
from intonaco.stepcache.settings import StepCacheSettings, describe_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCacheReport:
    """The step cache of one finished generation.

    Attributes:
        settings: as resolved for this step count.
        records: one per step.
    """

    settings: StepCacheSettings
    records: tuple[StepRecord, ...]

    @property
    def num_steps(self) -> int:
        return len(self.records)

    @property
    def num_cached(self) -> int:
        return sum(record.kind == "cached" for record in self.records)

    @property
    def num_calls(self) -> int:
        """Full steps: calls of the denoiser, each one counted once however many branches it has."""
        return self.num_steps - self.num_cached

    @property
    def num_invalid_scores(self) -> int:
        return sum(not record.is_score_valid for record in self.records)

    @property
    def counters(self) -> dict[str, int]:
        """What a server adds up over requests, by name; each is a count of steps of this one."""
        kinds = Counter(record.kind for record in self.records)
        return {
            "steps": self.num_steps,
            "calls": self.num_calls,
            "calls_skipped": self.num_cached,
            "calls_forced": kinds["forced"],
            "invalid_scores": self.num_invalid_scores,
        }

    @property
    def ceiling(self) -> float:
        """The speedup of the denoising loop if cached steps cost nothing."""
        return self.num_steps / self.num_calls

    @property
    def text(self) -> str:
        return describe_settings(self.settings, self.num_steps)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each thing that the caller should know; none where all went as asked."""
        if self.settings.is_off:
            return ()
        found: list[str] = []
        if self.num_cached == 0:
            found.append(f"step cache {self.text} skipped nothing: {self._why_nothing()}")
        if self.num_invalid_scores:
            found.append(
                f"step cache: {self.num_invalid_scores} of {self.num_steps} change scores were not "
                "numbers; those steps were full"
            )
        return tuple(found)

    def _why_nothing(self) -> str:
        inside = [record for record in self.records if record.reason != "window"]
        policy = self.settings.policy
        if not inside:
            return (
                f"all {self.num_steps} steps lie in its protected window; choose more steps or a "
                "smaller window"
            )
        if isinstance(policy, Planned) and self.num_steps not in policy.full_steps:
            known = ", ".join(str(number) for number in sorted(policy.full_steps))
            return f"its plan knows {known} steps, not {self.num_steps}; choose one of them"
        if all(not record.is_score_valid for record in inside):
            return "no change score was a number; choose cadence or online-delta"
        reasons = Counter(record.reason for record in inside if record.kind == "forced")
        if reasons:
            return (
                f"each step it would have cached came before {self.settings.estimator_rule.num_real} "
                "full steps; choose more steps"
            )
        if isinstance(policy, OnlineDelta):
            return f"no output changed less than {policy.alpha:g} times the first; raise alpha"
        if isinstance(policy, Adaptive):
            return f"no estimated change stayed below {policy.threshold:.3g}; raise the threshold"
        return f"{len(inside)} steps outside its window are too few; choose more steps"


def make_report(
    settings: StepCacheSettings, records: Sequence[StepRecord]
) -> StepCacheReport | None:
    """Return the report of a generation, or None where caching was off."""
    return None if settings.is_off else StepCacheReport(settings=settings, records=tuple(records))
