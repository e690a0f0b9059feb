"""`intonaco edit --template URL`: a private edit, its template's state streaming in from a store."""

from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from intonaco.cli import drawing, options
from intonaco.cli.edit_request import EditRequest
from intonaco.cli.stream_view import watching
from intonaco.cli.terminal import PictureProgress, Terminal
from intonaco.errors import RequestError

if TYPE_CHECKING:
    from intonaco.device.edit import StreamedEdit
    from intonaco.device.link import LinkSettings, TemplateLink
    from intonaco.device.records import StreamRecord
    from intonaco.model import Model
    from intonaco.streaming.protocol import EmulatedLink

BYTES_PER_MEGABYTE = 1_000_000
PLAIN_HEADERS = ("Host", "User-Agent", "Accept-Encoding", "Range", "If-Range")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What `edit` was told of the stream alone."""

    url: str
    emulate_link: str | None
    explains_privacy: bool


def is_url(template: str) -> bool:
    """Return whether `template` names a store rather than a folder of this machine."""
    return "://" in template


def edit_streamed(terminal: Terminal, request: EditRequest, stream_options: StreamOptions) -> None:
    """Draw `request` and report."""
    settings = _settings(stream_options.emulate_link)
    with terminal.progress() as progress:
        loaded, link = _open(progress, stream_options.url, settings, request.model)
    with link:
        edited = _draw(terminal, loaded, link, request)
    stream = edited.stream
    terminal.say(describe(stream))
    # A store that is asked again often says the same again.
    for trouble in dict.fromkeys(stream.troubles):
        terminal.warn(trouble)
    if stream_options.explains_privacy:
        terminal.say(explain(stream))
    drawing.finish(
        terminal,
        edited.picture,
        output=request.output,
        writes_receipt=request.writes_receipt,
        replay_words=None,
        extra={"stream": as_json(stream)},
    )


def describe(stream: "StreamRecord") -> str:
    """Return how the template's state came, in one line."""
    cut = sum(shard.is_cut for shard in stream.shards)
    borrowed = sum(shard.word == "borrow" for shard in stream.shards)
    step = stream.dense_from_step
    dense = "" if step is None else f"; from step {step} on every token was computed here, exactly"
    return (
        f"{stream.flag}: {stream.state_bytes / BYTES_PER_MEGABYTE:.3f} MB of state used, "
        f"{stream.received_bytes / BYTES_PER_MEGABYTE:.3f} MB received, "
        f"{len(stream.shards)} shards, {cut} cut, {borrowed} borrowed, "
        f"{1000 * stream.stall_s:.0f} ms of stalls in {stream.seconds:.2f} s{dense}"
    )


def explain(stream: "StreamRecord") -> str:
    """Return everything that left this machine for the edit, for a person to read."""
    lines = [f"everything that was sent, {len(stream.sent)} requests:"]
    for text in stream.sent:
        words = [line for line in text.split("\r\n") if line]
        lines.append("  " + " | ".join(words))
    lines.append(
        "These are file names of the template, byte ranges and what HTTP needs. Words, pictures, the "
        "mask and the seed were used on this machine only: the process that is connected never has "
        "them. When and how much is asked for depends on the speed of link and machine."
    )
    return "\n".join(lines)


def as_json(stream: "StreamRecord") -> dict[str, object]:
    """Return the stream as fields for a machine."""
    return {**asdict(stream), "flag": stream.flag, "stall_s": stream.stall_s}


def parse_link(text: str | None) -> "EmulatedLink | None":
    """Return the link that `--emulate-link` describes: a trace's CSV, or a rate in Mbit/s."""
    if text is None:
        return None
    from intonaco.streaming.protocol import EmulatedLink
    from intonaco.streaming.traces import read_trace

    if text.endswith(".csv"):
        return EmulatedLink(mbps=read_trace(Path(text)).mbps)
    rate = options.parse_number(text, option="--emulate-link", example=5)
    if rate is None or rate <= 0:
        raise RequestError(
            f"--emulate-link must be Mbit/s above 0 or a trace's .csv, got {text!r}; for example 5"
        )
    return EmulatedLink(mbps=(rate,))


def _settings(emulate_link: str | None) -> "LinkSettings":
    from intonaco.device.link import LinkSettings
    from intonaco.streaming.prefix_cache import default_cache_folder

    emulated = parse_link(emulate_link)
    # What is kept would make an emulated link look faster than it is.
    cache_folder = default_cache_folder() if emulated is None else None
    return LinkSettings(cache_folder=cache_folder, emulated=emulated)


def _open(
    progress: PictureProgress, url: str, settings: "LinkSettings", model: dict[str, Any]
) -> "tuple[Model, TemplateLink]":
    """Load the model while the template is opened."""
    from intonaco.device.link import TemplateLink

    opening: Future[TemplateLink] = Future()

    def run() -> None:
        try:
            opening.set_result(TemplateLink(url, settings))
        except BaseException as error:  # noqa: BLE001  # raised by whoever asks for the result
            opening.set_exception(error)

    # A daemon: whoever interrupts does not wait for a store that crawls.
    Thread(target=run, name="intonaco-open", daemon=True).start()
    try:
        loaded = drawing.load_model(progress, **model)
        return loaded, opening.result()
    except BaseException:
        opening.add_done_callback(_close)
        raise


def _close(opening: "Future[TemplateLink]") -> None:
    if opening.exception() is None:
        opening.result().close()


def _draw(
    terminal: Terminal, loaded: "Model", link: "TemplateLink", request: EditRequest
) -> "StreamedEdit":
    from intonaco.device.edit import TemplateSession

    with terminal.waiting("timing this machine"):
        session = TemplateSession(loaded, link)
    with watching(link) as watch:
        return session.edit(
            request.mask,
            prompt=request.prompt,
            references=request.references,
            seed=request.seed,
            is_private=request.is_private,
            watch=watch,
        )
