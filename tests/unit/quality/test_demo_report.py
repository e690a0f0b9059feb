"""The demo's page: figures, words, and nothing that is not in it."""

import math
from dataclasses import replace

import pytest
from PIL import Image

from intonaco.quality.demo_plot import Timeline
from intonaco.quality.demo_report import (
    Captioned,
    DemoReport,
    EditStory,
    explain_flag,
    report_html,
)

PICTURE = Captioned(image=Image.new("RGB", (8, 8), "teal"), caption="template")
STORY = EditStory(
    title="Try on",
    prompt="a doll & a dog",
    moment="the link fades",
    pictures=[PICTURE, PICTURE],
    psnr_db=41.26,
    dense_s=2.04,
    streamed_s=0.81,
    stall_s=0.012,
    uncompressed_s=6.3,
    float16_bytes=8_650_000,
    stored_bytes=1_900_000,
    received_bytes=865_000,
    used_bytes=800_000,
    num_shards=24,
    num_run=23,
    num_cut=3,
    num_borrowed=1,
    flag="degraded",
    sent=["GET /id/manifest.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"],
    timeline=Timeline(link=[(0.0, 8.0)], received=[], shards=[], end_s=0.81),
)


def _page(story: EditStory = STORY) -> str:
    report = DemoReport(
        edits=[story],
        drawn=[PICTURE],
        num_templates=2,
        emulated=["The link is <synthetic>."],
        commands=['intonaco edit --prompt "a doll"'],
        machine="one machine",
    )
    return report_html(report)


@pytest.mark.parametrize(
    "figure",
    ["41.3 dB", "2.04 s", "0.81 s", "12 ms", "6.3 s", "0.86 MB", "8.65 MB", "10 times less"],
)
def test_each_figure_stands_on_the_page(figure):
    assert figure in _page()


def test_equal_pictures_are_called_equal_and_not_infinite():
    page = _page(replace(STORY, psnr_db=math.inf))
    assert "<td>equal</td>" in page
    assert "inf dB" not in page


def test_an_edit_that_received_nothing_is_told_without_a_ratio():
    page = _page(replace(STORY, received_bytes=0))
    assert "0.00 MB came over the link of the 8.65 MB of uncompressed state" in page


def test_words_are_escaped():
    page = _page()
    assert "a doll &amp; a dog" in page
    assert "The link is &lt;synthetic&gt;." in page
    assert "intonaco edit --prompt &quot;a doll&quot;" in page


def test_pictures_are_embedded_and_nothing_is_loaded_from_elsewhere():
    page = _page()
    assert page.count('src="data:image/png;base64,') == 3
    assert page.count("src=") == 3
    assert "href=" not in page
    assert "url(" not in page


def test_what_was_sent_stands_there_request_by_request():
    assert "GET /id/manifest.json HTTP/1.1 | Host: 127.0.0.1" in _page()


@pytest.mark.parametrize(
    ("flag", "word"),
    [
        ("complete", "all of the template"),
        ("coded", "as much"),
        ("degraded", "step before"),
        ("dense-from-step-3", "from step 3 on"),
    ],
)
def test_every_flag_is_explained_in_plain_words(flag, word):
    assert word in explain_flag(flag)
