"""The demo's report: one HTML file with everything in it, for somebody who sees the product first.

Takes pictures and plain numbers; knows nothing of models, stores and links. Judges nothing: numbers
come from whoever ran the edits.
"""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import Template

from PIL.Image import Image

from intonaco.quality.demo_plot import Timeline, timeline_svg

BYTES_PER_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Captioned:
    """A picture and the words under it."""

    image: Image
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditStory:
    """One private edit, with what it is compared to.

    Attributes:
        pictures: template with its mask, references, dense edit, streamed edit, in this order.
        psnr_db: between dense and streamed edit, over the mask; infinity if equal.
        dense_s, streamed_s: from the request to the picture, on the machine that wrote the report.
        uncompressed_s: when the uncompressed state would have been here over the same link.
        stored_bytes: of the coded state at the store. used_bytes: of it, what the edit read.
        num_shards: of the template; so many of them ran with state, num_run, cut ones included.
        flag: complete, coded, degraded or dense-from-step-N.
        sent: one text per request, as it went over the wire.
    """

    title: str
    prompt: str
    moment: str
    pictures: Sequence[Captioned]
    psnr_db: float
    dense_s: float
    streamed_s: float
    stall_s: float
    uncompressed_s: float
    float16_bytes: int
    stored_bytes: int
    received_bytes: int
    used_bytes: int
    num_shards: int
    num_run: int
    num_cut: int
    num_borrowed: int
    flag: str
    sent: Sequence[str]
    timeline: Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What the page tells.

    Attributes:
        emulated: one sentence each on what of the run is emulated.
        commands: to go on with, as they are typed.
    """

    edits: Sequence[EditStory]
    drawn: Sequence[Captioned]
    num_templates: int
    emulated: Sequence[str]
    commands: Sequence[str]
    machine: str


def report_html(report: DemoReport) -> str:
    """Return the page; pictures and plots are embedded, nothing is loaded from elsewhere."""
    return PAGE.substitute(
        num_templates=_count(report.num_templates, "template picture"),
        num_edits=_count(len(report.edits), "private edit"),
        emulated="\n".join(f"<li>{escape(text)}</li>" for text in report.emulated),
        machine=escape(report.machine),
        rows="\n".join(_row(story) for story in report.edits),
        edits="\n".join(_section(index, story) for index, story in enumerate(report.edits, 1)),
        drawn=_figures(report.drawn),
        commands=escape("\n".join(report.commands)),
    )


def explain_flag(flag: str) -> str:
    """Return what a stream's flag means, for somebody who has not read the documentation."""
    if flag == "complete":
        return "all of the template's state came in time"
    if flag == "coded":
        return "as much of the template's state as came in time, for every block at every step"
    if flag == "degraded":
        return "some state did not come in time: the model took that of the step before"
    step = flag.rpartition("-")[2]
    return f"the state stayed away: from step {step} on every token was computed here"


def _row(story: EditStory) -> str:
    cells = (
        f"{story.title}: {story.moment}",
        f"{story.dense_s:.2f} s",
        f"{story.streamed_s:.2f} s",
        _decibels(story.psnr_db),
        f"{_megabytes(story.received_bytes)} MB",
        f"{_megabytes(story.float16_bytes)} MB",
        story.flag,
    )
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _section(index: int, story: EditStory) -> str:
    return SECTION.substitute(
        index=index,
        title=escape(story.title),
        moment=escape(story.moment),
        prompt=escape(story.prompt),
        figures=_figures(story.pictures),
        facts="\n".join(f"<li>{escape(fact)}</li>" for fact in _facts(story)),
        plot=timeline_svg(story.timeline),
        num_requests=_count(len(story.sent), "request"),
        sent=escape("\n".join(_one_line(text) for text in story.sent)),
    )


def _facts(story: EditStory) -> list[str]:
    times_less = (
        f", {story.float16_bytes / story.received_bytes:.0f} times less than"
        if story.received_bytes
        else " of"
    )
    return [
        f"{_megabytes(story.received_bytes)} MB came over the link{times_less} the "
        f"{_megabytes(story.float16_bytes)} MB of uncompressed state, which would have taken "
        f"{story.uncompressed_s:.1f} s over it. The store holds {_megabytes(story.stored_bytes)} MB; "
        f"the edit used {_megabytes(story.used_bytes)} MB of them.",
        f"{story.streamed_s:.2f} s from the request to the picture, {1000 * story.stall_s:.0f} ms of "
        f"it waiting for the link. Computing every token here: {story.dense_s:.2f} s.",
        f"{_decibels(story.psnr_db)} between the two pictures, over the part that may change; "
        "every pixel outside the mask is the template's own.",
        f"{story.flag}: {explain_flag(story.flag)}. Of {story.num_shards} shards {story.num_run} ran "
        f"with state of their own, {story.num_cut} of them cut; {story.num_borrowed} borrowed.",
    ]


def _figures(pictures: Sequence[Captioned]) -> str:
    return "\n".join(
        f'<figure><img src="{_data_url(one.image)}" alt="{escape(one.caption)}">'
        f"<figcaption>{escape(one.caption)}</figcaption></figure>"
        for one in pictures
    )


def _data_url(image: Image) -> str:
    encoded = io.BytesIO()
    image.convert("RGB").save(encoded, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")


def _one_line(request: str) -> str:
    return " | ".join(line for line in request.split("\r\n") if line)


def _decibels(psnr_db: float) -> str:
    return "equal" if math.isinf(psnr_db) else f"{psnr_db:.1f} dB"


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / BYTES_PER_MEGABYTE:.2f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


PAGE = Template("""<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>intonaco: private edits over a slow link</title>
<style>
body { font: 16px/1.55 system-ui, sans-serif; color: #2b2622; background: #faf7f2;
  max-width: 64rem; margin: 2rem auto 4rem; padding: 0 1rem }
h1 { font-size: 1.7rem; margin-bottom: .3rem } h2 { font-size: 1.25rem; margin-top: 2.6rem }
table { border-collapse: collapse; width: 100%; margin: 1.2rem 0 }
th, td { text-align: right; padding: .4rem .6rem; border-bottom: 1px solid #e3dcd2 }
th:first-child, td:first-child { text-align: left }
th { font-weight: 600; vertical-align: bottom }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0 }
figure { margin: 0; width: 192px } img { width: 192px; border-radius: 4px; display: block }
figcaption, .prompt, small { color: #6a6157; font-size: 13px; line-height: 1.4 }
figcaption { margin-top: .3rem }
svg { width: 100%; background: #fffdf9; border: 1px solid #efe9e0; border-radius: 4px }
aside { background: #f1ebe1; border-radius: 6px; padding: .8rem 1.2rem; margin: 1.4rem 0 }
aside ul { margin: .3rem 0 0; padding-left: 1.2rem }
pre { background: #f1ebe1; border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; font-size: 12px }
</style>
<h1>Private edits over a slow link</h1>
<p>A provider prepared $num_templates: the model ran over each once, and what attention needs of every
token that edits leave alone, its <em>state</em>, went to a web server. Then $num_edits ran on this
device. Each computed only what its mask lets change and read the rest from the state, which
streamed in while the model ran. Words, photos and masks never left the device.</p>
<table><thead><tr><th>edit</th><th>computing<br>everything</th><th>streamed</th>
<th>between<br>the two</th><th>received</th><th>uncompressed<br>state</th><th>outcome</th></tr></thead>
<tbody>
$rows
</tbody></table>
<small>$machine</small>
<aside><strong>What is emulated here.</strong>
<ul>
$emulated
</ul></aside>
$edits
<h2>Drawn from words</h2>
<p>The template pictures come from the same model.</p>
<div class="pictures">
$drawn
</div>
<h2>Go on</h2>
<pre>$commands</pre>
</html>
""")

SECTION = Template("""<section>
<h2>$index. $title: $moment</h2>
<p class="prompt">$prompt</p>
<div class="pictures">
$figures
</div>
<ul>
$facts
</ul>
$plot
<details><summary>Everything that was sent to the store: $num_requests</summary>
<p>File names of the template, byte ranges, and what HTTP needs. The process that talks to the
network never has words, pictures, mask or seed.</p>
<pre>$sent</pre></details>
</section>""")
