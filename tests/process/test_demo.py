"""The whole demo as a newcomer runs it: pictures, a store, streamed edits, one page that tells of it."""

import base64
import io
import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from intonaco import read_receipt
from intonaco.cli.demo_store import serving
from intonaco.errors import StoreError
from tests.support.catalog_servers import small_catalog

DEADLINE_S = 400
DATA_URL = "data:image/png;base64,"
BOY, GIRL_WORDS, DRESS_WORDS = "a short boy", "a girl in a blue dress", "a boy in a red hat"
PLAN = {
    "format": 1,
    "pictures": [{"name": "boy", "prompt": BOY, "seed": 2}],
    "edits": [
        {
            "name": "by-words",
            "title": "Edit <by> words",
            "prompt": GIRL_WORDS,
            "seed": 3,
            "template_picture": "boy",
            "mask_file": "mask.png",
        },
        {
            "name": "try-on",
            "title": "Try on",
            "prompt": DRESS_WORDS,
            "seed": 4,
            "template_picture": "boy",
            "mask_file": "mask.png",
            "reference_files": ["dress.png"],
        },
    ],
}


class Page(HTMLParser):
    """What a browser would find on a page: pictures, cells, texts, and whatever it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.cells: list[str] = []
        self.sent: list[str] = []
        self.open_tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open_tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_endtag(self, tag: str) -> None:
        while self.open_tags and self.open_tags.pop() != tag:
            continue

    def handle_data(self, data: str) -> None:
        if "td" in self.open_tags:
            self.cells.append(data)
        if "details" in self.open_tags and "pre" in self.open_tags:
            self.sent.append(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the demo printed and wrote."""

    folder: Path
    fields: dict
    stderr: str
    text: str
    page: Page


@pytest.fixture(scope="module")
def shown(tiny_flux2_folder, tmp_path_factory) -> Shown:
    folder = tmp_path_factory.mktemp("demo")
    assets = folder / "assets"
    assets.mkdir()
    random = np.random.default_rng(0)
    dress = random.integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(dress).save(assets / "dress.png")
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[:32] = 255
    Image.fromarray(mask).save(assets / "mask.png")
    (assets / "demo.json").write_text(json.dumps(PLAN))
    words = ["-m", str(tiny_flux2_folder), "--assets", str(assets), "-o", str(folder / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "intonaco", "demo", *words, "--json"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = (folder / "out" / "report.html").read_text()
    return Shown(
        folder=folder / "out",
        fields=json.loads(done.stdout),
        stderr=done.stderr,
        text=text,
        page=Page(text),
    )


# The page


def test_every_picture_of_the_report_is_in_it_and_decodes(shown):
    sizes = []
    for source in shown.page.sources:
        assert source.startswith(DATA_URL)
        with Image.open(io.BytesIO(base64.b64decode(source.removeprefix(DATA_URL)))) as image:
            image.load()
            sizes.append(image.size)
    # By words: template, dense, streamed. Try on: one photo more. Then the drawn picture.
    assert sizes == [(64, 64)] * (3 + 4 + 1)


def test_the_figures_of_every_edit_stand_in_its_table(shown):
    for one in shown.fields["streamed"]:
        stream = one["stream"]
        quality = "equal" if one["psnr_db"] is None else f"{one['psnr_db']:.1f} dB"
        assert stream["flag"] in shown.page.cells
        assert quality in shown.page.cells
        assert f"{stream['received_bytes'] / 1e6:.2f} MB" in shown.page.cells


def test_the_report_shows_what_was_sent_and_no_word_of_a_request_is_in_it(shown):
    sent = "".join(shown.page.sent)
    assert sent.count("GET /") == sum(
        len(one["stream"]["sent"]) for one in shown.fields["streamed"]
    )
    assert [words for words in (BOY, GIRL_WORDS, DRESS_WORDS, "dress.png") if words in sent] == []


def test_titles_and_prompts_are_escaped(shown):
    assert "Edit &lt;by&gt; words" in shown.text
    assert "<by>" not in shown.text


def test_the_report_draws_the_link_of_every_edit(shown):
    assert shown.text.count("<svg") == len(PLAN["edits"])


# The rest of the folder


def test_a_streamed_picture_carries_a_receipt_that_names_its_template(shown):
    record = read_receipt(shown.folder / "streamed-by-words.png").edit.template
    (template,) = {Path(folder).name for folder in shown.fields["templates"]}
    assert record.template_id.startswith(template)


def test_pixels_outside_the_mask_are_the_templates_own(shown):
    edited, template = (
        np.asarray(Image.open(shown.folder / name)) for name in ("streamed-try-on.png", "boy.png")
    )
    assert (edited[32:] == template[32:]).all()


def test_both_edits_of_one_picture_and_mask_share_one_template(shown):
    catalog = json.loads((shown.folder / "catalog" / "catalog.json").read_text())
    assert len(catalog["templates"]) == 1


# The store


def test_the_store_ends_with_its_block(tmp_path):
    small_catalog(tmp_path)
    with serving(tmp_path) as url:
        address = (urlsplit(url).hostname, urlsplit(url).port)
        socket.create_connection(address, timeout=30).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=30)


def test_a_store_of_a_folder_without_templates_is_refused_with_the_command_to_try(tmp_path):
    with pytest.raises(StoreError, match="template serve"), serving(tmp_path):
        pass
