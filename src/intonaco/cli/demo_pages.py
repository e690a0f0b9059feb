"""From what the demo drew and streamed to its report: pictures, figures and words side by side."""

import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from intonaco.cli.demo_catalog import Studio
from intonaco.cli.demo_streaming import Streamed, StreamedDemo
from intonaco.cli.streamed_edit import as_json as stream_as_json

if TYPE_CHECKING:
    from PIL.Image import Image

    from intonaco.cli.demo_plan import DemoPlan
    from intonaco.quality.demo_report import Captioned, EditStory

SHORT_ID = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A streamed edit beside the edit that computed everything."""

    streamed: Streamed
    dense: "Image"
    dense_s: float
    psnr_db: float


def compare(
    demo: StreamedDemo, *, images: "Mapping[str, Image]", seconds: Mapping[str, float]
) -> tuple[Compared, ...]:
    """Return each streamed edit with its dense one; `images` and `seconds` of those, by name."""
    from intonaco.quality.metrics import psnr
    from intonaco.template.loading import open_parts

    found: list[Compared] = []
    for one in demo.edits:
        dense = images[one.edit.name]
        parts = open_parts(one.template.manifest, one.template.read)
        quality = psnr(one.result.picture.image, dense, mask_HW=parts.mask_HW)
        found.append(
            Compared(streamed=one, dense=dense, dense_s=seconds[one.edit.name], psnr_db=quality)
        )
    return tuple(found)


def write_report(
    path: Path,
    studio: Studio,
    plan: "DemoPlan",
    demo: StreamedDemo,
    compared: tuple[Compared, ...],
    *,
    images: "Mapping[str, Image]",
) -> None:
    """Write the page. Raises SaveError."""
    from intonaco.pipelines.picture import write_files
    from intonaco.quality.demo_report import Captioned, DemoReport, report_html

    report = DemoReport(
        edits=[_story(studio, one) for one in compared],
        drawn=[
            Captioned(image=images[picture.name], caption=picture.prompt)
            for picture in plan.pictures
        ],
        num_templates=len(demo.templates),
        emulated=_emulated(studio, demo),
        commands=_commands(studio, demo),
        machine=_machine(studio),
    )
    write_files({path: report_html(report).encode()})


def as_json(demo: StreamedDemo, compared: tuple[Compared, ...]) -> dict[str, object]:
    """Return the streamed half as fields for a machine; PSNR is null for equal pictures."""
    return {
        "link_scale": demo.link_scale,
        "templates": [str(template.folder) for template in demo.templates.values()],
        "streamed": [
            {
                "name": one.streamed.edit.name,
                "psnr_db": None if math.isinf(one.psnr_db) else round(one.psnr_db, 2),
                "dense_s": round(one.dense_s, 3),
                "float16_bytes": one.streamed.template.manifest.sizes.float16_bytes,
                "stream": stream_as_json(one.streamed.result.stream),
            }
            for one in compared
        ],
    }


def _story(studio: Studio, one: Compared) -> "EditStory":
    from intonaco.quality.demo_report import EditStory

    streamed, stream = one.streamed, one.streamed.result.stream
    manifest = streamed.template.manifest
    return EditStory(
        title=streamed.edit.title,
        prompt=streamed.edit.prompt,
        moment=streamed.moment,
        pictures=_pictures(studio, one),
        psnr_db=one.psnr_db,
        dense_s=one.dense_s,
        streamed_s=stream.seconds,
        stall_s=stream.stall_s,
        uncompressed_s=streamed.uncompressed_s,
        float16_bytes=manifest.sizes.float16_bytes,
        stored_bytes=manifest.state_bytes,
        received_bytes=stream.received_bytes,
        used_bytes=stream.state_bytes,
        num_shards=len(streamed.timeline.shards),
        num_run=sum(shard.word == "run" for shard in stream.shards),
        num_cut=sum(shard.is_cut for shard in stream.shards),
        num_borrowed=sum(shard.word == "borrow" for shard in stream.shards),
        flag=stream.flag,
        sent=stream.sent,
        timeline=streamed.timeline,
    )


def _pictures(studio: Studio, one: Compared) -> "list[Captioned]":
    from intonaco.pipelines.reading import open_picture
    from intonaco.quality.demo_report import Captioned
    from intonaco.quality.report import mark_region
    from intonaco.template.loading import open_parts

    template, edit = one.streamed.template, one.streamed.edit
    parts = open_parts(template.manifest, template.read)
    references = [
        open_picture(studio.assets / name, "reference").convert("RGB")
        for name in edit.reference_files
    ]
    return [
        Captioned(
            image=mark_region(parts.picture, parts.mask_HW),
            caption="template; what an edit may change is marked",
        ),
        *(Captioned(image=image, caption="a photo that stays here") for image in references),
        Captioned(image=one.dense, caption="edited, every token computed"),
        Captioned(image=one.streamed.result.picture.image, caption="edited, state streamed in"),
    ]


def _emulated(studio: Studio, demo: StreamedDemo) -> list[str]:
    round_trip_ms = 1000 * demo.edits[0].link.round_trip_s
    return [
        "The link. Its rate is a synthetic 5G trace of intonaco's own, with no measured data in it. "
        "Between device and store lies loopback.",
        f"Its rates are multiplied by {demo.link_scale:.3g}, and a round trip takes "
        f"{round_trip_ms:.1f} ms, so that state bytes, link and run time are to each other as for "
        "FLUX.2-klein-4B on the phone of the SAKURA paper. Unscaled, the state of a model as small "
        "as this one would be there at once.",
        "The three moments of the trace are chosen: a good one, one that fades, a poor one.",
        "The emulation runs on the same cores as the model: on a busy machine less arrives than the "
        "link would carry.",
        f"Nothing else: model ({studio.model.name}), edits, store ('intonaco template serve', a "
        "process of its own), HTTP range requests, the controller and all times are real.",
    ]


def _commands(studio: Studio, demo: StreamedDemo) -> list[str]:
    template = next(iter(demo.templates.values()))
    short = template.folder.parent / template.manifest.template_id[:SHORT_ID]
    url = f"http://127.0.0.1:8650/{template.folder.name}"
    return [
        f"intonaco template inspect {short}",
        f'intonaco edit --template {short} --prompt "a doll, a dotted pink dress, in the city"',
        f"intonaco template serve {studio.catalog}",
        f'intonaco edit --template {url} --prompt "a doll, a red vest" --explain-privacy',
    ]


def _machine(studio: Studio) -> str:
    return (
        f"Times are those of this one run on this machine ({platform.machine()}, "
        f"{os.cpu_count()} CPU cores, {studio.model.device}, {studio.model.dtype}), no benchmark. A "
        "streamed edit leaves one core to receiving and decoding; with a model as small as this one, "
        "those may cost more time than the edit saves. Between the two: PSNR over the part that may "
        "change; above about 40 dB pictures are hard to tell apart."
    )
