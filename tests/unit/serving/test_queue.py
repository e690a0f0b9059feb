from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import QueueFullError
from intonaco.serving.queue import FairQueue


@dataclass(eq=False)
class Item:
    caller: str
    num_pictures_left: int = 1
    name: str = ""


def drawn(queue: FairQueue) -> list[str]:
    """Draw all that waits, picture by picture."""
    names = []
    while (item := queue.take()) is not None:
        item.num_pictures_left -= 1
        names.append(item.name)
        if item.num_pictures_left:
            queue.put_back(item)
    return names


def test_callers_take_turns_and_each_ones_jobs_stay_in_order():
    queue = FairQueue(max_pictures=10)
    for item in (Item("A", 3, "a1"), Item("A", 1, "a2"), Item("B", 2, "b")):
        queue.add(item, retry_after_s=1)
    assert drawn(queue) == ["a1", "b", "a1", "b", "a1", "a2"]


def test_the_bound_counts_pictures_and_tells_when_to_come_again():
    queue = FairQueue(max_pictures=4)
    queue.add(Item("A", 3), retry_after_s=1)
    with pytest.raises(QueueFullError, match="holds 3 of 4 pictures, no room for 2") as caught:
        queue.add(Item("B", 2), retry_after_s=9)
    assert caught.value.retry_after_s == 9


def test_a_refused_job_leaves_no_trace():
    queue = FairQueue(max_pictures=1)
    with pytest.raises(QueueFullError):
        queue.add(Item("A", 2), retry_after_s=1)
    assert (queue.num_pictures, queue.take()) == (0, None)


def test_a_removed_job_is_not_drawn_and_removing_twice_says_so():
    queue, item = FairQueue(max_pictures=4), Item("A")
    queue.add(item, retry_after_s=1)
    assert (queue.remove(item), queue.remove(item), queue.take()) == (True, False, None)


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 3)), max_size=12))
def test_every_picture_is_drawn_once_whoever_asked(jobs):
    queue = FairQueue(max_pictures=100)
    for index, (caller, count) in enumerate(jobs):
        queue.add(Item(caller, count, str(index)), retry_after_s=1)
    names = drawn(queue)
    assert sorted(names) == sorted(
        str(i) for i, (_, count) in enumerate(jobs) for _ in range(count)
    )
