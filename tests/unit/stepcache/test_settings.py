"""Settings as text and back, and an operator's limits."""

import pytest

from intonaco.errors import RequestError
from intonaco.stepcache.policies import Cadence, Off, OnlineDelta, Planned, Window
from intonaco.stepcache.settings import (
    OFF,
    Offered,
    StepCacheLimits,
    StepCacheSettings,
    check_limits,
    describe_settings,
    parse_settings,
)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("off", Off()),
        ("cadence", Cadence()),
        ("cadence:3", Cadence(period=3)),
        ("cadence:3:2", Cadence(period=3, num_cached=2)),
        ("online-delta", OnlineDelta()),
        ("online-delta:0.4", OnlineDelta(alpha=0.4)),
    ],
)
def test_a_policy_is_read_from_its_text(text, policy):
    assert parse_settings(text) == StepCacheSettings(policy=policy)


def test_options_follow_the_policy():
    assert parse_settings(" cadence:2, estimator=slope ,window=5-4,row=1 ") == StepCacheSettings(
        policy=Cadence(), estimator="slope", window=Window(first=5, last=4), max_cached_in_row=1
    )


@pytest.mark.parametrize("text", ["cadence:3:2,window=3-2,row=2", "online-delta:0.5,window=1-1"])
def test_the_description_of_settings_means_the_same_run(text):
    settings = parse_settings(text)
    again = parse_settings(describe_settings(settings, 50))
    assert describe_settings(again, 50) == describe_settings(settings, 50)
    assert again.policy == settings.policy


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no policy is called ''"),
        ("fast", "no policy is called 'fast'"),
        ("cadence:x", "'x' is not a whole number"),
        ("cadence:2:1:1", "cadence takes at most 2 numbers"),
        ("off:1", "off takes at most 0 numbers"),
        ("online-delta:much", "'much' is not a number"),
        ("cadence:2,speed=3", "no option is called 'speed'"),
        ("cadence:2,window=5", "'' is not a whole number"),
        ("cadence:2,row=-1", "'-1' is not a whole number"),
        ("calibrated:a:b", "calibrated takes one name"),
    ],
)
def test_a_text_that_cannot_be_read_says_which_part_and_what_to_write(text, reason):
    with pytest.raises(RequestError) as caught:
        parse_settings(text)
    assert reason in str(caught.value)
    assert "write off, cadence:2" in str(caught.value)


def test_an_unknown_estimator_is_refused_with_the_known_ones():
    with pytest.raises(RequestError, match="estimator must be one of slope, held, linear"):
        parse_settings("cadence:2,estimator=cubist")


def test_a_calibrated_choice_overrides_only_what_it_names():
    choice = parse_settings("calibrated:fast,row=1")
    assert choice == Offered(offer="fast", max_cached_in_row=1)
    offered = StepCacheSettings(policy=Cadence(), estimator="held", window=Window(first=4, last=4))
    assert choice.override(offered) == StepCacheSettings(
        policy=Cadence(), estimator="held", window=Window(first=4, last=4), max_cached_in_row=1
    )


def test_limits_refuse_with_every_reason_and_the_advice_holds():
    limits = StepCacheLimits(kinds=("off", "cadence"), max_cached_in_row=1, min_first=5, min_last=5)
    wild = StepCacheSettings(
        policy=Planned(full_steps={50: (0, 1, 20, 49)}), window=Window(first=1, last=1)
    )
    with pytest.raises(RequestError) as caught:
        check_limits(wild, limits, 50)
    for reason in ("policy planned", "row 28 is over 1", "window 1-1 is under 5-5"):
        assert reason in str(caught.value)
    check_limits(StepCacheSettings(policy=Cadence()), limits, 50)


def test_off_is_within_limits_that_leave_caching_out():
    check_limits(OFF, StepCacheLimits(kinds=("off",), max_cached_in_row=1, min_first=50), 50)


def test_a_cap_of_zero_is_refused():
    with pytest.raises(RequestError, match=r"row must be in 1\.\.1000"):
        StepCacheSettings(policy=Cadence(), max_cached_in_row=0)
