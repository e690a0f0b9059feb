"""Messages of reconstruction: they survive the way, and no field of them could hold a request."""

from dataclasses import fields

import pytest

from intonaco.device.reconstruction_protocol import (
    ANSWER,
    TASK,
    Follow,
    Made,
    Make,
    Prepare,
    Ready,
    Rest,
    decode_answer,
    decode_task,
)
from intonaco.errors import PackDamagedError, StreamingError
from intonaco.streaming.failures import Failed

TASKS = [
    Prepare(num_manifest_bytes=3, num_bytes=9, worker=0, num_workers=2),
    Follow(),
    Rest(),
    Make(shard=2, slot=1, coefficient_bytes=5, basis_bytes=6, turn_at=1.5),
]
ANSWERS = [
    Ready(),
    Ready(bytes_per_s=1.5e6),
    Made(
        shard=2,
        coefficient_bytes=5,
        basis_bytes=6,
        seconds=0.1,
        decoded_bytes=7,
        decode_s=0.2,
        trouble="",
    ),
    Failed(error="PackDamagedError", message="no"),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_a_task_survives_the_way(task):
    assert decode_task(TASK.dump_json(task)) == task


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.kind)
def test_an_answer_survives_the_way(answer):
    assert decode_answer(ANSWER.dump_json(answer)) == answer


@pytest.mark.parametrize("content", [b"", b"{}", b'{"kind": "make"}', b'{"kind": "other"}'])
def test_what_is_no_message_is_refused(content):
    with pytest.raises(StreamingError, match="no task"):
        decode_task(content)
    with pytest.raises(StreamingError, match="no answer"):
        decode_answer(content)


def test_no_task_has_room_for_words_or_pictures():
    texts = [
        (task.kind, each.name)
        for task in TASKS
        for each in fields(task)
        if each.name != "kind" and each.type not in (int, float, "int", "float")
    ]
    assert texts == []


def test_an_error_survives_the_way_with_its_class():
    error = Failed.of(PackDamagedError("byte 7")).as_error(StreamingError)
    assert (type(error), str(error)) == (PackDamagedError, "byte 7")


@pytest.mark.parametrize("name", ["ValueError", "annotations", "no such thing"])
def test_a_name_of_no_error_of_ours_becomes_the_one_that_was_said(name):
    error = Failed(error=name, message="text").as_error(StreamingError)
    assert (type(error), str(error)) == (StreamingError, "text")
