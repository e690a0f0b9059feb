"""What the device is told of a shard's start, beside the controller's own decision."""

import asyncio
from types import SimpleNamespace

import pytest

from intonaco.streaming.client import StreamClient, StreamFiles
from intonaco.streaming.controller import StreamController
from intonaco.streaming.late import Run
from intonaco.streaming.settings import StreamSettings
from tests.support.streaming import ENCODE_S, NUM_GROUPS, NUM_STEPS, klein_plan


class Deciding(StreamController):
    """Starts every shard as it was told."""

    decision = Run(level=0)

    def start(self, shard, now):
        return self.decision


def file(name):
    return SimpleNamespace(record=SimpleNamespace(name=name), num_verified_bytes=0)


def client(decision):
    controller = Deciding(klein_plan(), StreamSettings(), start_at=ENCODE_S, now=0.0)
    controller.decision = decision
    files = StreamFiles(
        folder="",
        bases=tuple(file(f"basis-{group}") for group in range(NUM_GROUPS)),
        coefficients=tuple(
            tuple(file(f"{step}-{group}") for group in range(NUM_GROUPS))
            for step in range(NUM_STEPS)
        ),
    )
    return StreamClient(store=None, controller=controller, files=files)


@pytest.mark.parametrize("is_below_floor", [False, True])
def test_a_shard_below_its_floor_is_cut_even_where_nothing_was_asked_for_it(is_below_floor):
    decision = Run(level=0, is_below_floor=is_below_floor)
    started = asyncio.run(client(decision).start(7))
    assert started.is_cut == is_below_floor
