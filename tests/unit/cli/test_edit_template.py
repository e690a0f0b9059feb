"""`edit --template` and its replay on a tiny random checkpoint: what is drawn, what is refused."""

import json

import numpy as np
import pytest
from PIL import Image

import intonaco
from intonaco.template.build import BuildRequest, build_template
from intonaco.template.catalog import open_template
from intonaco.template.loading import load_template
from tests.support.tiny_flux2 import build_tiny_flux2


@pytest.fixture(scope="module")
def catalog(tmp_path_factory, tiny_flux2_folder):
    """A catalog with one template of a picture of noise, its middle left to edits."""
    model = intonaco.load(tiny_flux2_folder)
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    mask_HW = np.zeros((64, 64), dtype=bool)
    mask_HW[16:48, 20:40] = True
    request = BuildRequest(
        picture=Image.fromarray(pixels),
        mask_HW=mask_HW,
        prompt="a girl",
        seed=5,
        num_steps=2,
        num_profiling=1,
    )
    folder = tmp_path_factory.mktemp("catalogs") / "catalog"
    built = build_template(model.editable_family(), request, folder, model_digest=model.digest)
    return built.folder


def edit_words(catalog, folder, *more):
    return ("edit", "--template", catalog, "-p", "a tall boy", "-m", folder, "-o", "e.png", *more)


def test_a_template_is_edited_inside_its_own_mask(run, catalog, tiny_flux2_folder, tmp_path):
    assert run(*edit_words(catalog, tiny_flux2_folder)).code == 0

    before = np.asarray(load_template(open_template(catalog)).picture)
    with Image.open(tmp_path / "e.png") as opened:
        after = np.asarray(opened)
    changed = (before != after).any(axis=-1)
    assert changed[16:48, 20:40].any()
    changed[16:48, 20:40] = False
    assert not changed.any()


def test_the_receipt_names_template_and_bytes_and_the_templates_seed(
    run, catalog, tiny_flux2_folder, tmp_path
):
    result = run(*edit_words(catalog, tiny_flux2_folder, "--json"))
    receipt = json.loads(result.out)["receipt"]

    record = receipt["edit"]["template"]
    assert record["template_id"].startswith(catalog.name)
    assert (record["state"], record["dense_from_step"]) == ("coded", None)
    assert record["num_bytes"] > 0
    assert (receipt["seed"], receipt["num_steps"]) == (5, 2)


def test_a_budget_bounds_what_is_read(run, catalog, tiny_flux2_folder, tmp_path):
    run(*edit_words(catalog, tiny_flux2_folder))
    whole = intonaco.read_receipt(tmp_path / "e.png").edit.template.num_bytes
    budget = whole * 0.6
    run(*edit_words(catalog, tiny_flux2_folder, "--budget-mb", budget / 1e6))

    read = intonaco.read_receipt(tmp_path / "e.png").edit.template.num_bytes
    assert 0 < read <= budget


@pytest.mark.parametrize("budget_share", [None, 0.6])
def test_replay_draws_the_same_pixels(run, catalog, tiny_flux2_folder, tmp_path, budget_share):
    words = edit_words(catalog, tiny_flux2_folder)
    run(*words)
    if budget_share is not None:
        whole = intonaco.read_receipt(tmp_path / "e.png").edit.template.num_bytes
        run(*words, "--budget-mb", whole * budget_share / 1e6)
    result = run("replay", "e.png", "-m", tiny_flux2_folder, "--template", catalog)

    assert (result.code, "the same pixels as e.png" in result.out) == (0, True)


def test_replay_without_the_template_names_it(run, catalog, tiny_flux2_folder):
    run(*edit_words(catalog, tiny_flux2_folder))
    result = run("replay", "e.png", "-m", tiny_flux2_folder)

    assert result.code != 0
    assert "template" in result.err


def test_another_model_is_refused_with_the_field(run, catalog, tmp_path):
    other = build_tiny_flux2(tmp_path / "other", seed=1)
    result = run(*edit_words(catalog, other))

    assert result.code != 0
    assert result.err.startswith("error: model_digest: the template was captured with")


def test_another_number_of_steps_is_refused_with_the_field(run, catalog, tiny_flux2_folder):
    result = run(*edit_words(catalog, tiny_flux2_folder, "--steps", 3))

    assert result.code != 0
    assert "num_steps: the template was captured with 2, this edit has 3" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("edit", "-p", "a girl"), "got neither"),
        (("edit", "a.png", "--template", "catalog/3f"), "got both"),
        (("edit", "a.png", "-p", "a girl"), "edit needs --mask beside PICTURE"),
        (("edit", "a.png", "--mask", "m.png", "--budget-mb", "1"), "--budget-mb needs --template"),
        (("edit", "--template", "nowhere/3f", "-p", "a girl"), "does not exist"),
    ],
)
def test_what_cannot_be_edited_is_said(run, words, message):
    result = run(*words)

    assert result.code != 0
    assert message in result.err
