"""docs/pack-format.md: its worked bytes are what the writer writes, and a reader made from the page
alone reads them."""

import re

import google_crc32c

from intonaco.template.coded import Increment, Ladder
from intonaco.template.ladder_file import LadderHeader, write_ladder
from intonaco.template.pack_format import Role
from tests.support.documents import ROOT

PAGE = (ROOT / "docs/pack-format.md").read_text()
HEADER = LadderHeader(
    role=Role.COEFFICIENTS,
    template_tag=bytes.fromhex("0123456789abcdef"),
    codec="demo",
    step=1,
    first_block=2,
    num_blocks=2,
    num_rows=5,
    width=16,
    max_planes=8,
)
# Block, kind, first component, components, first plane, planes, payload.
INCREMENTS = [
    (2, 0, 0, 1, 0, 2, bytes.fromhex("aabbcc")),
    (2, 1, 0, 1, 0, 2, bytes.fromhex("112233")),
    (2, 0, 0, 1, 2, 1, bytes.fromhex("4455")),
    (2, 1, 0, 1, 2, 1, bytes.fromhex("66")),
]
NAMES = ("block", "kind", "first_component", "num_components", "first_plane", "num_planes",
         "payload")  # fmt: skip


def _documented() -> bytes:
    example = PAGE.split("<!-- golden bytes")[1].split("```")[1]
    lines = [re.split(r" {2,}", line)[0] for line in example.strip().splitlines()]
    return bytes.fromhex("".join(lines))


def test_the_worked_bytes_are_those_that_the_writer_writes():
    increments = tuple(
        Increment(**dict(zip(NAMES, values, strict=True)), error=4.0 - index)
        for index, values in enumerate(INCREMENTS)
    )
    written = write_ladder(HEADER, Ladder(start_error=8.0, increments=increments, floor=2))
    assert written.content.hex(" ") == _documented().hex(" ")
    assert (written.ends, written.floor_bytes) == ((47, 69, 84), 69)


def test_a_reader_made_from_the_page_alone_reads_the_worked_bytes():
    assert list(PageReader(_documented()).increments()) == INCREMENTS


class PageReader:
    """Reads a ladder by the page, sharing no code with the package; checks nothing but checksums."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.planes = {}

    def increments(self):
        """Yield (block, kind, first component, components, first plane, planes, payload)."""
        header_end = 16 + self._integer(12, 4)
        first_block = self._integer(26, 2)
        covered = self.content[:header_end]
        assert self._integer(header_end, 4) == google_crc32c.value(covered)
        at = header_end + 4
        while at < len(self.content):
            end = at + 2 + self._integer(at, 2)
            covered += self.content[at:end]
            assert self._integer(end, 4) == google_crc32c.value(covered)
            at += 2
            while at < end:
                unit, *place, payload, at = self._increment(at)
                yield first_block + unit // 2, unit % 2, *place, payload
            at = end + 4

    def _increment(self, at: int):
        head, at = self._number(at)
        first, at = self._number(at)
        count = more = 1
        if head % 2:
            count, at = self._number(at)
            more, at = self._number(at)
        length, at = self._number(at)
        first_plane = self.planes.get((head // 2, first), 0)
        for component in range(first, first + count):
            self.planes[head // 2, component] = first_plane + more
        payload = self.content[at : at + length]
        return head // 2, first, count, first_plane, more, payload, at + length

    def _number(self, at: int):
        first = self.content[at]
        if first < 192:
            return first, at + 1
        if first < 240:
            return 192 + (first - 192) * 256 + self.content[at + 1], at + 2
        return self._integer(at + 1, 3), at + 4

    def _integer(self, at: int, size: int) -> int:
        return int.from_bytes(self.content[at : at + size], "little")
