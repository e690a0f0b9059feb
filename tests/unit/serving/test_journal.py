import io
import json
import threading

import pytest

from intonaco.serving.journal import MAX_WAITING_LINES, Journal


@pytest.mark.parametrize(("is_verbose", "prompts"), [(False, [None]), (True, ["a doll"])])
def test_prompts_are_written_only_where_asked(is_verbose, prompts):
    stream = io.StringIO()
    journal = Journal(stream, is_verbose=is_verbose)
    journal.write("job_queued", prompt="a doll", request_id="req-1", nothing=None)
    journal.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("prompt") for line in lines] == prompts
    assert "nothing" not in lines[0]


def test_a_full_disk_costs_lines_and_nothing_else():
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    journal = Journal(Full())
    journal.write("state")
    journal.write("state")
    journal.close()
    assert journal.num_lost == 2


def test_a_reader_that_stopped_reading_blocks_no_writer():
    is_released = threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            is_released.wait(60)
            return len(text)

    journal = Journal(Stuck())
    for _ in range(MAX_WAITING_LINES + 10):
        journal.write("state")
    lost = journal.num_lost
    is_released.set()
    journal.close()
    assert lost >= 9
