"""A live view of a stream on a terminal: link rate, shards as they arrive and run, stalls."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from intonaco.device.link import TemplateLink
    from intonaco.device.source import StreamedSource

REFRESH_PER_S = 10
FILL = " .:-=+*#%@"
CELL = 5
LEGEND = "          . to @ arrived   [ ] ran   b borrowed   d dense"
# The shell's prompt, and one that a terminal keeps free.
SPARE_LINES = 2
BYTES_PER_MEGABYTE = 1_000_000
MEGABITS_PER_BYTE = 8e-6


@contextlib.contextmanager
def watching(link: "TemplateLink") -> Generator["Callable[[StreamedSource], None]"]:
    """Show the edit of the source that what is yielded is called with, where stderr is a terminal."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda source: None
        return
    sources: list[StreamedSource] = []
    live = Live(
        get_renderable=lambda: _picture(
            link, sources[-1] if sources else None, console.size.height - SPARE_LINES
        ),
        console=console,
        refresh_per_second=REFRESH_PER_S,
        transient=True,
    )
    # Not by `with`: an interrupt while it starts would leave the view, and no cursor.
    try:
        live.start(refresh=True)
        yield sources.append
    finally:
        live.stop()


def _picture(
    link: "TemplateLink", source: "StreamedSource | None", num_lines: int
) -> "RenderableType":
    from rich.text import Text

    # A line that wrapped would be counted as one, and leave its rest behind when it is drawn again.
    return Text("\n".join(lines(link, source, num_lines)), no_wrap=True, overflow="ellipsis")


def lines(link: "TemplateLink", source: "StreamedSource | None", num_lines: int = 100) -> list[str]:
    """Return the view: a line of the link, one of the blocks, then one per step, a mark per shard.

    Marks: `.` to `@` what has arrived of a shard, in brackets once it runs; `b` borrowed, `d` dense.
    Where there is no room for every step, those around the one that runs are shown.
    """
    sizes = link.manifest.sizes
    num_groups = len(sizes.block_groups)
    ran = {(record.step, record.group): record.word for record in source.records} if source else {}
    shown = [_link_line(link, source), _blocks_line(sizes.block_groups)]
    for step in _steps_in_view(sizes.num_steps, max(ran, default=(0, 0))[0], num_lines - 4):
        marks = [
            _mark(link, step * num_groups + group, ran.get((step, group)))
            for group in range(num_groups)
        ]
        shown.append(f"step {step + 1:3}  {' '.join(f'{mark:^{CELL}}' for mark in marks)}")
    shown.append(LEGEND)
    trouble = link.progress.trouble if link.progress else ""
    return [*shown, f"trouble: {trouble}"] if trouble else shown


def _link_line(link: "TemplateLink", source: "StreamedSource | None") -> str:
    progress = link.progress
    rate = 0.0 if progress is None else progress.bytes_per_s * MEGABITS_PER_BYTE
    received = 0.0 if progress is None else progress.num_bytes / BYTES_PER_MEGABYTE
    stall_ms = 1000 * sum(record.stall_s for record in source.records) if source else 0.0
    return f"link {rate:8.2f} Mbit/s   {received:7.3f} MB here   stalls {stall_ms:5.0f} ms"


def _blocks_line(block_groups: Sequence[Sequence[int]]) -> str:
    """Return the heads of the columns: the first and the last block of each group, from 1."""
    names = [
        str(group[0] + 1) if len(group) == 1 else f"{group[0] + 1}-{group[-1] + 1}"
        for group in block_groups
    ]
    return f"blocks    {' '.join(f'{name:^{CELL}}' for name in names)}".rstrip()


def _steps_in_view(num_steps: int, step: int, num_lines: int) -> range:
    """Return the steps that `num_lines` lines have room for, those around `step`."""
    num_shown = min(num_steps, max(1, num_lines))
    first = min(max(0, step - num_shown // 2), num_steps - num_shown)
    return range(first, first + num_shown)


def _mark(link: "TemplateLink", shard: int, word: str | None) -> str:
    if word in {"borrow", "dense", "give-up"}:
        return f"[{word[0]}]"
    num_levels = _num_levels(link, shard)
    progress = link.progress
    level = progress.levels[shard] if progress else None
    share = 0.0 if level is None else (level + 1) / num_levels
    fill = FILL[min(len(FILL) - 1, round(share * (len(FILL) - 1)))]
    return f"[{fill}]" if word else f" {fill} "


def _num_levels(link: "TemplateLink", shard: int) -> int:
    step, group = divmod(shard, len(link.manifest.sizes.block_groups))
    own = link.manifest.coefficients[step][group].cuts_from_floor()
    basis = link.manifest.bases[group].cuts_from_floor()
    return len(own) + len(basis) - 1
