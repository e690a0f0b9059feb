"""`template build`, `inspect` and `verify` on a tiny random checkpoint, and an edit of what was built."""

import json

import numpy as np
import pytest
from PIL import Image

import intonaco
from intonaco.cli import main
from intonaco.template.catalog import Catalog

STEPS = 2
WORDS = ("--prompt", "a girl", "--steps", STEPS)


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_flux2_folder):
    """A folder with a picture, a mask and a catalog of one template; tests must not change it."""
    folder = tmp_path_factory.mktemp("built")
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "picture.png")
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[16:48, 16:48] = 255
    Image.fromarray(mask).save(folder / "mask.png")
    words = ["template", "build", folder / "picture.png", "--mask", folder / "mask.png", *WORDS]
    words += ["--profile", "a boy", "--profile-reference", folder / "picture.png"]
    words += ["-m", tiny_flux2_folder, "-o", folder / "catalog", "--title", "the girl"]
    assert main([str(word) for word in words]) == 0
    return folder


def _entry(built):
    (entry,) = Catalog(built / "catalog").entries()
    return entry


def test_a_built_template_is_listed_under_its_title_with_the_bytes_of_its_state(built):
    entry = _entry(built)
    opened = Catalog(built / "catalog").open(entry.template_id)
    assert (entry.title, entry.state_bytes) == ("the girl", opened.manifest.state_bytes)
    assert opened.manifest.identity["prompt"] == "a girl"


def test_a_build_says_where_the_template_is_and_how_to_edit_it(run, built, tiny_flux2_folder):
    words = (built / "picture.png", "--mask", built / "mask.png", *WORDS, "-m", tiny_flux2_folder)
    result = run("template", "build", *words, "--seed", 5)
    assert result.code == 0
    assert result.out.startswith("catalog/")
    assert "edit it: intonaco edit --template catalog/" in result.out


def test_the_same_build_gives_the_same_bytes(run, built, tiny_flux2_folder, tmp_path):
    words = [built / "picture.png", "--mask", built / "mask.png", *WORDS, "-m", tiny_flux2_folder]
    words += ["--profile", "a boy", "--profile-reference", built / "picture.png"]
    words += ["--title", "the girl", "--json"]
    fields = json.loads(run("template", "build", *words).out)
    assert fields["template_id"] == _entry(built).template_id
    assert Catalog(tmp_path / "catalog").entries() == Catalog(built / "catalog").entries()


def test_an_edit_of_a_built_template_keeps_its_picture_outside_the_mask(
    run, built, tiny_flux2_folder, tmp_path
):
    path = built / "catalog" / _entry(built).template_id[:6]
    words = ("--template", path, "--prompt", "a boy", "-m", tiny_flux2_folder, "-o", "edited.png")
    assert run("edit", *words).code == 0
    before = np.asarray(Image.open(built / "picture.png"))
    after = np.asarray(Image.open(tmp_path / "edited.png"))
    is_kept = np.ones((64, 64), dtype=bool)
    is_kept[16:48, 16:48] = False
    assert (after[is_kept] == before[is_kept]).all()
    assert (after[~is_kept] != before[~is_kept]).any()
    receipt = intonaco.read_receipt(tmp_path / "edited.png")
    assert receipt.edit.template.template_id == _entry(built).template_id


def test_verify_says_how_many_templates_are_whole(run, built):
    result = run("template", "verify", built / "catalog")
    assert (result.code, result.out) == (0, "1 of 1 templates are whole\n")


def test_verify_names_a_damaged_file_and_ends_with_3(run, built, tmp_path):
    entry = _entry(built)
    copied = tmp_path / "copied"
    copied.mkdir()
    for path in (built / "catalog" / entry.folder_name).iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    (basis, *_) = copied.glob("basis-0*")
    basis.write_bytes(basis.read_bytes()[:-1] + b"?")
    result = run("template", "verify", copied)
    assert (result.code, basis.name in result.out) == (3, True)


def test_inspect_says_what_is_in_a_template_and_writes_a_page(run, built, tmp_path):
    path = built / "catalog" / _entry(built).template_id
    result = run("template", "inspect", path, "-o", "report")
    assert result.code == 0
    assert "picture       64 x 64, 16 tokens, of which 4 may change" in result.out
    names = {path.name for path in (tmp_path / "report").iterdir()}
    pictures = {"frontier.png", "importance.png", "sizes.png", "spectra.png"}
    assert names == {"index.html", *pictures}
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 4


def test_inspect_with_json_prints_numbers_alone(run, built):
    path = built / "catalog" / _entry(built).template_id
    fields = json.loads(run("template", "inspect", path, "--json").out)
    assert fields["state_bytes"] == _entry(built).state_bytes
    assert fields["frontier"]["num_bytes"] == sorted(fields["frontier"]["num_bytes"])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--prompt", " "), 2, "--prompt must say what the picture shows"),
        (("--prompt", "a girl", "--seed", "x"), 2, "--seed must be a whole number"),
    ],
)
def test_a_build_that_cannot_work_says_why(run, built, tiny_flux2_folder, words, code, told):
    fixed = (built / "picture.png", "--mask", built / "mask.png", "-m", tiny_flux2_folder)
    result = run("template", "build", *fixed, *words)
    assert (result.code, told in result.err) == (code, True)


@pytest.mark.parametrize("grey", [0, 255])
def test_a_mask_that_leaves_nothing_or_everything_is_refused(
    run, built, tiny_flux2_folder, tmp_path, grey
):
    Image.new("L", (64, 64), grey).save(tmp_path / "flat.png")
    words = (built / "picture.png", "--mask", "flat.png", *WORDS, "-m", tiny_flux2_folder)
    result = run("template", "build", *words)
    assert (result.code, "mask of a template must leave tokens" in result.err) == (2, True)


def test_a_template_that_is_not_there_is_named(run):
    result = run("template", "inspect", "catalog/3fa9")
    assert (result.code, "template catalog/3fa9 does not exist" in result.err) == (3, True)
