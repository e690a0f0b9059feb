"""The plan of the demo is read whole or refused with the place and the rule."""

import json

import pytest

from intonaco.cli.demo_plan import WORDS_ONLY, read_plan
from intonaco.errors import RequestError

GIRL = {"name": "girl", "prompt": "a girl", "seed": 1}
EDIT = {
    "name": "try-on",
    "title": "Try on",
    "seed": 2,
    "template_picture": "girl",
    "mask_file": "mask.png",
    "reference_files": ["coat.png"],
}


def _write(folder, plan, *, files=("mask.png", "coat.png")):
    (folder / "demo.json").write_text(json.dumps(plan))
    for name in files:
        (folder / name).touch()
    return folder


def test_a_plan_holds_its_pictures_and_edits_in_order(tmp_path):
    plan = read_plan(_write(tmp_path, {"format": 1, "pictures": [GIRL], "edits": [EDIT]}))
    assert [picture.name for picture in plan.pictures] == ["girl"]
    assert plan.edits[0].files == ("mask.png", "coat.png")


def test_a_folder_without_a_plan_gives_pictures_from_words_alone(tmp_path):
    assert read_plan(tmp_path) is WORDS_ONLY
    assert WORDS_ONLY.edits == ()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"format": 2, "pictures": []}, "format"),
        ({"format": 1, "pictures": [GIRL], "extra": 1}, "extra"),
        ({"format": 1, "pictures": [GIRL, GIRL]}, "names must differ"),
        ({"format": 1, "pictures": [GIRL | {"name": "../girl"}]}, r"pictures\.0\.name"),
        ({"format": 1, "pictures": [], "edits": [EDIT]}, "template_picture of try-on"),
        (
            {"format": 1, "pictures": [GIRL], "edits": [EDIT | {"template_file": "mask.png"}]},
            "exactly one of",
        ),
        (
            {"format": 1, "pictures": [GIRL], "edits": [EDIT | {"mask_file": "../mask.png"}]},
            r"edits\.0\.mask_file",
        ),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused_by_name(tmp_path, plan, message):
    with pytest.raises(RequestError, match=message):
        read_plan(_write(tmp_path, plan))


def test_a_plan_that_is_no_json_is_refused_with_its_path(tmp_path):
    (tmp_path / "demo.json").write_text("{")
    with pytest.raises(RequestError, match=r"demo\.json: plan: Invalid JSON"):
        read_plan(tmp_path)


def test_a_missing_file_is_named_with_the_edit_that_needs_it(tmp_path):
    plan = {"format": 1, "pictures": [GIRL], "edits": [EDIT]}
    with pytest.raises(RequestError, match=r"edit 'try-on' needs coat\.png"):
        read_plan(_write(tmp_path, plan, files=("mask.png",)))
