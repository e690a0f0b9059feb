"""The demo's second half: templates in a catalog, a store on loopback, private edits over a slow link.

    prepare   each picture that an edit of the plan changes becomes a template of OUTPUT/catalog
    serve     `intonaco template serve`, on loopback
    stream    each edit again, its template's state coming over an emulated 5G link
    compare   with the edit that computes everything, drawn before from the same seed

The link is ours: a synthetic trace, no measured data. It is scaled so that state bytes, link rate, round
trip and run time are to each other as on the SAKURA paper's phone; without that, a small model's state
would be there at once, or its edit over before the first byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from intonaco.cli.demo_catalog import Studio, TemplateKey, build_all, key_of, streamable
from intonaco.cli.demo_store import serving
from intonaco.cli.demo_watch import recording
from intonaco.cli.stream_view import watching

if TYPE_CHECKING:
    from PIL.Image import Image

    from intonaco.cli.demo_plan import DemoPlan, DrawnEdit
    from intonaco.device.edit import StreamedEdit, TemplateSession
    from intonaco.device.link import TemplateLink
    from intonaco.device.source import StreamedSource
    from intonaco.quality.demo_plot import Timeline
    from intonaco.streaming.link import LinkModel
    from intonaco.streaming.settings import StreamSettings
    from intonaco.streaming.traces import Trace
    from intonaco.template.catalog import Template

LINK_KIND = "5g"
TRACE_SECONDS = 120
TRACE_SEED = 1
PAPER_ROUND_TRIP_S = 0.04
# Seconds of the trace that begin halfway through an edit: a trace changes once a second, and an edit
# of a small model takes less.
MOMENTS = (
    ("a good moment of the link", 11),
    ("the link fades", 15),
    ("a poor moment of the link", 95),
)
# FLUX.2-klein-4B at 512 x 512, a tenth edited, on the phone of the SAKURA paper.
PAPER_STATE_BYTES = 1.46 * 2**30
PAPER_EDIT_S = 2.26


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """One private edit of the demo.

    Attributes:
        link: as it was emulated. moment: what kind of moment of it the edit met.
    """

    edit: "DrawnEdit"
    template: "Template"
    result: "StreamedEdit"
    timeline: "Timeline"
    link: "LinkModel"
    moment: str

    @property
    def uncompressed_s(self) -> float:
        """When all of the state as float16 would have been here, over the same link."""
        return self.link.finish_at(
            self.link.round_trip_s, self.template.manifest.sizes.float16_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedDemo:
    """All of the second half.

    Attributes:
        link_scale: by which the trace's rates were multiplied.
        url: of the store, while it ran.
    """

    templates: "Mapping[TemplateKey, Template]"
    edits: tuple[Streamed, ...]
    link_scale: float
    url: str


def stream_all(studio: Studio, plan: "DemoPlan", pictures: "Mapping[str, Image]") -> StreamedDemo:
    """Prepare, serve and stream; `pictures` are those that the plan drew, by name.

    Raises StoreError where no store can be started on this machine.
    """
    edits = streamable(plan)
    templates = build_all(studio, plan, pictures)
    with serving(studio.catalog) as url:
        studio.terminal.say(f"store: {studio.catalog}, served at {url} to this machine")
        first = templates[key_of(edits[0])]
        edit_s = _time_edit(studio, url, first)
        scale = link_scale(first.manifest.sizes.float16_bytes, edit_s)
        streamed = tuple(
            _stream(
                studio,
                url,
                edit,
                templates[key_of(edit)],
                emulated_link(index, scale=scale, edit_s=edit_s),
            )
            for index, edit in enumerate(edits)
        )
    return StreamedDemo(templates=templates, edits=streamed, link_scale=scale, url=url)


def the_trace() -> "Trace":
    """Return the demo's own 5G trace, as wide as such a link is."""
    from intonaco.streaming.traces import SYNTHETIC_LINKS, synthesize_trace

    return synthesize_trace(
        SYNTHETIC_LINKS[LINK_KIND], num_seconds=TRACE_SECONDS, seed=TRACE_SEED, name=LINK_KIND
    )


def link_scale(float16_bytes: int, edit_s: float) -> float:
    """Return by what to multiply a trace: state bytes per second of run time here over the paper's."""
    return (float16_bytes / edit_s) / (PAPER_STATE_BYTES / PAPER_EDIT_S)


def emulated_link(index: int, *, scale: float, edit_s: float) -> "tuple[str, LinkModel]":
    """Return the kind of moment that edit `index` meets, and the link from there on."""
    from intonaco.streaming.link import LinkModel

    moment, second = MOMENTS[index % len(MOMENTS)]
    return moment, LinkModel(
        trace=the_trace().scaled(scale),
        start_s=max(0.0, second - edit_s / 2),
        round_trip_s=PAPER_ROUND_TRIP_S * min(1.0, edit_s / PAPER_EDIT_S),
    )


def _time_edit(studio: Studio, url: str, template: "Template") -> float:
    """Return the run time of all shards of an edit on this machine."""
    from intonaco.device.edit import TemplateSession
    from intonaco.device.link import TemplateLink

    waiting = studio.terminal.waiting("timing this machine")
    with waiting, TemplateLink(f"{url}/{template.folder.name}") as link:
        return sum(TemplateSession(studio.model, link).times.run_s)


def _stream(
    studio: Studio,
    url: str,
    edit: "DrawnEdit",
    template: "Template",
    moment_and_link: "tuple[str, LinkModel]",
) -> Streamed:
    from intonaco.cli.streamed_edit import describe
    from intonaco.device.edit import TemplateSession
    from intonaco.device.link import LinkSettings, TemplateLink
    from intonaco.streaming.protocol import EmulatedLink

    moment, model = moment_and_link
    emulated = EmulatedLink(
        mbps=model.trace.mbps, start_s=model.start_s, round_trip_s=model.round_trip_s
    )
    # Each edit opens its template anew: nothing is kept from the one before.
    with TemplateLink(f"{url}/{template.folder.name}", LinkSettings(emulated=emulated)) as opened:
        session = TemplateSession(studio.model, opened, settings=_settings(model))
        result, timeline = _edit(studio, session, opened, edit, model)
    studio.terminal.say(f"{edit.name}, {moment}: {describe(result.stream)}")
    for trouble in result.stream.troubles:
        studio.terminal.warn(f"{edit.name}: {trouble}")
    return Streamed(
        edit=edit, template=template, result=result, timeline=timeline, link=model, moment=moment
    )


def _edit(
    studio: Studio,
    session: "TemplateSession",
    opened: "TemplateLink",
    edit: "DrawnEdit",
    model: "LinkModel",
) -> "tuple[StreamedEdit, Timeline]":
    with watching(opened) as show, recording(opened) as recorder:

        def watch(source: "StreamedSource") -> None:
            show(source)
            recorder.watch(source)

        result = session.edit(
            prompt=edit.prompt or None,
            references=[studio.assets / name for name in edit.reference_files],
            seed=edit.seed,
            watch=watch,
        )
    return result, recorder.timeline(result.stream, model)


def _settings(link: "LinkModel") -> "StreamSettings":
    """Return settings for a device that knows how fast its link usually is, no more."""
    from statistics import median

    from intonaco.streaming.rate import RateSettings
    from intonaco.streaming.settings import StreamSettings
    from intonaco.streaming.traces import BYTES_PER_MBIT

    return StreamSettings(
        round_trip_s=link.round_trip_s,
        rate=RateSettings(start_bytes_per_s=median(link.trace.mbps) * BYTES_PER_MBIT),
    )
