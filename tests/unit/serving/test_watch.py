from intonaco.serving.watch import Verdict, Watch, decide


def verdict(now_s: float, **fields) -> Verdict:
    watch = Watch(**{"heard_s": 0.0, "deadline_s": 100.0, **fields})
    return decide(watch, now_s, step_timeout_s=10, cancel_timeout_s=3)


def test_a_quiet_step_is_waited_for_until_its_time_is_up():
    assert verdict(4) == Verdict(action="wait", wait_s=6)


def test_a_step_that_takes_too_long_means_another_process():
    found = verdict(10)
    assert (found.action, found.reason) == ("replace", "a step took longer than 10 s")


def test_a_client_that_is_gone_means_a_cancel():
    assert verdict(4, is_unwanted=True).action == "cancel"


def test_a_deadline_means_a_cancel():
    found = verdict(5, deadline_s=5.0)
    assert (found.action, found.reason) == ("cancel", "out of time")


def test_the_next_look_is_not_after_the_deadline():
    assert verdict(4, deadline_s=5.0).wait_s == 1


def test_a_cancel_that_was_sent_is_waited_for():
    assert verdict(6, is_unwanted=True, cancel_sent_s=5.0) == Verdict(action="wait", wait_s=2)


def test_a_cancel_that_is_not_confirmed_means_another_process():
    found = verdict(8, cancel_sent_s=5.0)
    assert (found.action, found.reason) == ("replace", "it did not confirm a cancel within 3 s")
