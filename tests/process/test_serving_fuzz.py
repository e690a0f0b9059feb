"""Schemathesis on the server's own OpenAPI: no fault of ours, and the model process stays.

Bounded: a fixed number of examples per operation, derandomized, so that a run can be repeated.
"""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from tests.support.running_server import DEADLINE_S, digests, running_server

pytestmark = pytest.mark.timeout(DEADLINE_S + 120)
EXAMPLES = 20


@pytest.fixture(scope="module")
def server():
    with running_server("--set", "request_timeout_s=20") as started:
        yield started.await_ready()


def fuzz(operation: Any, mode: schemathesis.GenerationMode) -> int:
    """Send generated requests of one operation; return how many were sent."""
    sent: list[int] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        answer = case.call(timeout=DEADLINE_S)
        sent.append(answer.status_code)
        assert answer.status_code != 500, answer.text
        case.validate_response(answer, checks=[status_code_conformance, content_type_conformance])

    send()
    return len(sent)


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_no_generated_request_meets_a_fault_of_the_server(server, mode):
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    bodies = [one for one in operations if one.body]
    chosen = operations if mode == schemathesis.GenerationMode.POSITIVE else bodies
    assert sum(fuzz(operation, mode) for operation in chosen) > EXAMPLES
    assert [line for line in server.lines if line["event"] == "fault"] == []


def test_after_the_fuzz_the_same_process_draws_the_same_pictures(server):
    starts = [line for line in server.lines if line.get("state") == "ready"]
    assert (len(starts), digests(server.draw())) == (1, digests(server.draw()))
