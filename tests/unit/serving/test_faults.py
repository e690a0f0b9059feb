import pytest

from intonaco.errors import (
    DeadlineError,
    FieldError,
    GenerationCancelled,
    ModelProcessError,
    NotReadyError,
    PromptTooLongError,
    QueueFullError,
)
from intonaco.serving.faults import fault_of


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (FieldError("n", "n is wrong"), 400, "invalid_value"),
        (PromptTooLongError("long"), 400, "invalid_value"),
        (QueueFullError("full", retry_after_s=3), 429, "queue_full"),
        (NotReadyError("warming", retry_after_s=3), 503, "not_ready"),
        (GenerationCancelled("gone"), 409, "cancelled"),
        (DeadlineError("late"), 504, "out_of_time"),
        (ModelProcessError("died"), 502, "model_process"),
        (KeyError("secret"), 500, "fault"),
    ],
)
def test_every_error_has_its_status_and_code(error, status, code):
    fault = fault_of(error)
    assert (fault.status, fault.code) == (status, code)


def test_a_fault_of_ours_tells_no_detail():
    assert "secret" not in str(fault_of(KeyError("secret")).body())


def test_a_full_queue_says_when_to_come_again():
    assert fault_of(QueueFullError("full", retry_after_s=3)).headers() == {"retry-after": "3"}
