"""`intonaco demo` on a tiny checkpoint: every picture, its receipt, one sheet, one table.

Its edits are of pictures in files, which are not streamed; tests/process/test_demo.py streams.
"""

import json

import numpy as np
import pytest
from PIL import Image

from intonaco import read_receipt

PLAN = {
    "format": 1,
    "pictures": [
        {"name": "girl", "prompt": "a girl", "seed": 1},
        {"name": "boy", "prompt": "a boy", "seed": 2},
    ],
    "edits": [
        {
            "name": "by-words",
            "title": "Edit by words",
            "prompt": "a boy with a hat",
            "seed": 3,
            "template_file": "template.png",
            "mask_file": "mask.png",
        },
        {
            "name": "try-on",
            "title": "Try on",
            "seed": 4,
            "template_file": "template.png",
            "mask_file": "mask.png",
            "reference_files": ["dress.png"],
        },
    ],
}


@pytest.fixture
def assets(tmp_path):
    folder = tmp_path / "assets"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name in ("template.png", "dress.png"):
        pixels = random.integers(0, 255, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[:32] = 255
    Image.fromarray(mask).save(folder / "mask.png")
    (folder / "demo.json").write_text(json.dumps(PLAN))
    return folder


def test_the_demo_writes_every_picture_with_its_receipt_and_one_sheet(
    run, assets, tiny_flux2_folder, tmp_path
):
    result = run("demo", "-m", tiny_flux2_folder, "--assets", assets, "-o", "out")
    assert (result.code, result.err) == (0, "")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    names = ("girl", "boy", "by-words", "try-on")
    pictures = {f"{name}.{suffix}" for name in names for suffix in ("png", "json")}
    assert written == {"contact-sheet.png", *pictures}
    assert read_receipt(tmp_path / "out" / "try-on.png").kind == "edit"


def test_the_demo_says_what_it_drew_and_where(run, assets, tiny_flux2_folder):
    out = run("demo", "-m", tiny_flux2_folder, "--assets", assets, "-o", "out").out
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == [
        "out/girl.png",
        "out/boy.png",
        "out/by-words.png",
        "out/try-on.png",
    ]
    assert "all pictures on one page: out/contact-sheet.png" in out


def test_the_demo_with_json_prints_one_object(run, assets, tiny_flux2_folder):
    words = ("-m", tiny_flux2_folder, "--assets", assets, "-o", "out", "--json")
    fields = json.loads(run("demo", *words).out)
    assert fields["pictures"][0]["picture"] == "out/girl.png"
    assert fields["seconds"] > 0


def test_the_demo_without_reference_pictures_says_so_and_draws_from_words(
    run, tiny_flux2_folder, tmp_path
):
    (tmp_path / "empty").mkdir()
    result = run("demo", "-m", tiny_flux2_folder, "--assets", "empty", "-o", "out")
    assert result.code == 0
    assert "no demo.json in empty: only pictures from words" in result.err
    assert (tmp_path / "out" / "contact-sheet.png").is_file()


def test_the_built_in_plan_and_its_files_are_whole():
    from pathlib import Path

    import intonaco
    from intonaco.cli.demo_plan import read_plan

    plan = read_plan(Path(intonaco.__file__).parent / "assets" / "demo")
    assert len(plan.pictures) >= 4
    assert sum(bool(edit.reference_files) for edit in plan.edits) >= 2


def test_the_built_in_plan_streams_every_edit_from_two_templates():
    from pathlib import Path

    import intonaco
    from intonaco.cli.demo_catalog import key_of, streamable
    from intonaco.cli.demo_plan import read_plan

    plan = read_plan(Path(intonaco.__file__).parent / "assets" / "demo")
    assert streamable(plan) == plan.edits
    assert len({key_of(edit) for edit in plan.edits}) == 2


def test_a_model_without_template_state_draws_all_and_says_what_is_left_out(run, assets, tmp_path):
    from tests.support.tiny_flux2 import build_tiny_flux2

    plan = json.loads((assets / "demo.json").read_text())
    plan["edits"] = [plan["edits"][0] | {"template_picture": "boy", "template_file": None}]
    (assets / "demo.json").write_text(json.dumps(plan))
    guided = build_tiny_flux2(tmp_path / "guided", is_distilled=False)
    result = run("demo", "-m", guided, "--assets", assets, "-o", "out")
    assert result.code == 0
    assert "private edits are left out: guidance_scale must be at most 1" in result.err
    assert (tmp_path / "out" / "contact-sheet.png").is_file()
    assert not (tmp_path / "out" / "report.html").exists()
