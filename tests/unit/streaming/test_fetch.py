"""A copy of a template over links that break: what came is kept, what still comes is waited for."""

import asyncio
from dataclasses import dataclass

import pytest

from intonaco.errors import StoreLostError
from intonaco.streaming import fetch
from intonaco.streaming.prefix_cache import PrefixCache
from intonaco.streaming.store import Piece, RangeRequest
from tests.support.templates import small_packed

PACKED = small_packed("a" * 64, seed=0)
CONTENTS = {**PACKED.contents, "manifest.json": PACKED.manifest.to_json()}
NUM_BYTES = sum(map(len, PACKED.contents.values()))


@dataclass
class BreakingStore:
    """Serves `CONTENTS`; every connection breaks after one piece of at most `piece_bytes`.

    `num_left` counts the ranged bytes until nothing comes any more; None is for ever.
    """

    piece_bytes: int
    num_left: int | None = None
    url: str = "fake://store"
    asked: RangeRequest | None = None
    has_sent: bool = False

    async def connect(self) -> "BreakingStore":
        self.asked, self.has_sent = None, False
        return self

    async def ask(self, request: RangeRequest) -> None:
        self.asked = request

    async def read(self) -> Piece:
        request = self.asked
        size = min(self.piece_bytes, request.stop - request.start)
        if self.num_left is not None:
            size = min(size, self.num_left)
        if self.has_sent or not size:
            raise StoreLostError("the connection was cut")
        if self.num_left is not None:
            self.num_left -= size
        self.has_sent = True
        name = request.name.partition("/")[2]
        return Piece(content=CONTENTS[name][request.start : request.start + size], tag="")

    async def fetch(self, name: str, *, max_bytes: int) -> bytes:
        return CONTENTS[name.partition("/")[2]][:max_bytes]

    async def close(self) -> None:
        self.asked = None


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    monkeypatch.setattr(fetch, "RETRY_S", 0.0)


def copy(store: BreakingStore, cache: PrefixCache | None = None) -> fetch.FetchedTemplate:
    return asyncio.run(fetch.fetch_template(store, "folder", cache=cache))


def test_a_link_that_breaks_ever_and_again_still_brings_a_whole_template():
    assert NUM_BYTES > 200 * (fetch.MAX_LOSSES + 2)
    assert copy(BreakingStore(piece_bytes=200)).contents == PACKED.contents


def test_a_link_that_breaks_before_it_brings_anything_is_given_up():
    with pytest.raises(StoreLostError):
        copy(BreakingStore(piece_bytes=200, num_left=0))


def test_a_copy_that_broke_off_keeps_the_files_that_were_whole_by_then(tmp_path):
    cache = PrefixCache(folder=tmp_path)
    with pytest.raises(StoreLostError):
        copy(BreakingStore(piece_bytes=NUM_BYTES, num_left=NUM_BYTES - 10), cache)
    assert copy(BreakingStore(piece_bytes=NUM_BYTES), cache).num_fetched_bytes == 10
