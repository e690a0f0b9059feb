"""Ladders for tests of files: valid ones of any shape, and a small plain one."""

from hypothesis import strategies as st

from intonaco.template.coded import Increment, Ladder
from intonaco.template.ladder_file import TAG_BYTES, LadderHeader
from intonaco.template.pack_format import Role

FIRST_BLOCK, NUM_BLOCKS, MAX_PLANES = 2, 3, 8


def header(role: Role = Role.COEFFICIENTS, **changes) -> LadderHeader:
    """A header of blocks 2, 3 and 4, step 5."""
    fields = {
        "role": role,
        "template_tag": bytes(range(TAG_BYTES)),
        "codec": "test",
        "step": 5,
        "first_block": FIRST_BLOCK,
        "num_blocks": NUM_BLOCKS,
        "num_rows": 12,
        "width": 16,
        "max_planes": MAX_PLANES,
    }
    return LadderHeader(**{**fields, **changes})


@st.composite
def ladders(draw, *, max_increments: int = 60, max_payload_bytes: int = 40) -> Ladder:
    """Any ladder of blocks 2, 3 and 4 that the format allows, errors falling."""
    planes = {(block, kind): [] for block in range(2, 5) for kind in (0, 1)}
    increments, error = [], 100.0
    for _ in range(draw(st.integers(0, max_increments))):
        unit = draw(st.sampled_from(sorted(planes)))
        have = planes[unit]
        first = draw(st.integers(0, len(have)))
        first_plane = have[first] if first < len(have) else 0
        if first_plane == MAX_PLANES:
            continue
        run = next((n for n in range(first, len(have)) if have[n] != first_plane), None)
        most = (run - first) if run is not None else max(len(have) - first, 1)
        most = most if first_plane else most + (3 if run is None else 0)
        count = draw(st.integers(1, most))
        num_planes = draw(st.integers(1, MAX_PLANES - first_plane))
        have += [0] * (first + count - len(have))
        have[first : first + count] = [first_plane + num_planes] * count
        error *= draw(st.floats(0.5, 1.0))
        increments.append(
            Increment(
                block=unit[0],
                kind=unit[1],
                first_component=first,
                num_components=count,
                first_plane=first_plane,
                num_planes=num_planes,
                payload=draw(st.binary(max_size=max_payload_bytes)),
                error=error,
            )
        )
    floor = draw(st.integers(0, len(increments)))
    return Ladder(start_error=100.0, increments=tuple(increments), floor=floor)


def plain_ladder(*, num_increments: int = 40, payload_bytes: int = 30) -> Ladder:
    """A regular ladder: one component of one unit after the other, planes in rounds."""
    units = [(block, kind) for block in range(2, 5) for kind in (0, 1)]
    increments = []
    for index in range(num_increments):
        block, kind = units[index % len(units)]
        turn = index // len(units)
        increments.append(
            Increment(
                block=block,
                kind=kind,
                first_component=turn % 4,
                num_components=1,
                first_plane=turn // 4,
                num_planes=1,
                payload=bytes([index % 256]) * payload_bytes,
                error=99.0 - index / 10,
            )
        )
    return Ladder(start_error=100.0, increments=tuple(increments), floor=3)
