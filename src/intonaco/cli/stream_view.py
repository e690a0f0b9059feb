"""A live view of a stream on a terminal: link rate, shards as they arrive and run, stalls."""

import contextlib
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from intonaco.device.link import TemplateLink
    from intonaco.device.source import StreamedSource

REFRESH_PER_S = 10
FILL = " .:-=+*#%@"
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
    with Live(
        get_renderable=lambda: _picture(link, sources),
        console=console,
        refresh_per_second=REFRESH_PER_S,
        transient=True,
    ):
        yield sources.append


def _picture(link: "TemplateLink", sources: "list[StreamedSource]") -> "RenderableType":
    from rich.text import Text

    return Text("\n".join(lines(link, sources[-1] if sources else None)))


def lines(link: "TemplateLink", source: "StreamedSource | None") -> list[str]:
    """Return the view: one line of the link, then one per step with a mark per shard.

    Marks: `.` to `@` what has arrived of a shard, in brackets once it runs; `b` borrowed, `d` dense.
    """
    progress = link.progress
    rate = 0.0 if progress is None else progress.bytes_per_s * MEGABITS_PER_BYTE
    received = 0.0 if progress is None else progress.num_bytes / BYTES_PER_MEGABYTE
    stall_ms = 1000 * sum(record.stall_s for record in source.records) if source else 0.0
    trouble = progress.trouble if progress else ""
    head = f"link {rate:8.2f} Mbit/s   {received:7.3f} MB here   stalls {stall_ms:5.0f} ms"
    shown = [head + (f"   {trouble}" if trouble else "")]
    num_groups = len(link.manifest.sizes.block_groups)
    ran = {(record.step, record.group): record.word for record in source.records} if source else {}
    for step in range(link.manifest.sizes.num_steps):
        marks = [
            _mark(link, step * num_groups + group, ran.get((step, group)))
            for group in range(num_groups)
        ]
        shown.append(f"step {step + 1:2}  {''.join(marks)}")
    return shown


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
