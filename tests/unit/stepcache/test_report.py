"""What is said of a step cache that did nothing: the reason, and what would help."""

import pytest

from intonaco.stepcache.controller import StepRecord
from intonaco.stepcache.policies import Adaptive, Cadence, Curve, OnlineDelta, Planned, Window
from intonaco.stepcache.report import StepCacheReport, make_report
from intonaco.stepcache.settings import OFF, StepCacheSettings

IDENTITY = Curve(coefficients=(0.0, 1.0), center=0.0, scale=1.0, low=0.0, high=1.0)


def report(policy, records, window=Window()) -> StepCacheReport:  # noqa: B008  frozen
    return StepCacheReport(
        settings=StepCacheSettings(policy=policy, window=window), records=tuple(records)
    )


def full(reason: str, **more) -> StepRecord:
    return StepRecord(kind="full", reason=reason, **more)


@pytest.mark.parametrize(
    ("policy", "records", "reason"),
    [
        (Cadence(), [full("window")] * 4, "all 4 steps lie in its protected window"),
        (
            Cadence(),
            [full("window"), StepRecord(kind="forced", reason="history")],
            "came before 2 full steps",
        ),
        (OnlineDelta(alpha=0.5), [full("window"), full("policy")], "raise alpha"),
        (
            Adaptive(threshold=0.1, curve=IDENTITY),
            [full("window"), full("policy")],
            "raise the threshold",
        ),
        (
            Adaptive(threshold=0.1, curve=IDENTITY),
            [full("window"), full("score", is_score_valid=False)],
            "no change score was a number",
        ),
        (
            Planned(full_steps={50: (0, 49)}),
            [full("window"), full("policy")],
            "its plan knows 50 steps, not 2",
        ),
        (Cadence(period=9), [full("window"), full("policy")], "are too few; choose more steps"),
    ],
)
def test_a_cache_that_skipped_nothing_says_why_and_what_would_help(policy, records, reason):
    first = report(policy, records).warnings[0]
    assert "skipped nothing" in first
    assert reason in first


def test_a_cache_that_skipped_steps_has_nothing_to_say():
    made = report(Cadence(), [full("window"), StepRecord(kind="cached", reason="policy")])
    assert made.warnings == ()
    assert (made.num_calls, made.num_cached, made.ceiling) == (1, 1, 2.0)


def test_caching_that_is_off_makes_no_report():
    assert make_report(OFF, []) is None


def test_the_counters_add_up_what_a_server_exports():
    records = [
        full("window"),
        full("policy"),
        StepRecord(kind="cached", reason="policy"),
        StepRecord(kind="forced", reason="row"),
        full("score", is_score_valid=False),
    ]
    assert report(Cadence(), records).counters == {
        "steps": 5,
        "calls": 4,
        "calls_skipped": 1,
        "calls_forced": 1,
        "invalid_scores": 1,
    }
