"""`compile --template` and `programs why --template`: which programs edits on a template need."""

import json
import shutil

import numpy as np
import pytest

import intonaco
from tests.support.studio import build_noise_template
from tests.support.tiny_flux2 import build_tiny_flux2
from tests.support.tiny_wan import build_tiny_wan

SPARSE = [
    "denoiser/sparse-prologue",
    "denoiser/sparse-double[1]",
    "denoiser/sparse-single[2]",
    "denoiser/epilogue",
]
DENSE = ["denoiser/prologue", "denoiser/double[1]", "denoiser/single[2]", "denoiser/epilogue"]


def editable(*, rows: slice, columns: slice) -> np.ndarray:
    mask_HW = np.zeros((64, 64), dtype=np.bool_)
    mask_HW[rows, columns] = True
    return mask_HW


@pytest.fixture(scope="module")
def catalog(tmp_path_factory, tiny_flux2_folder):
    """A catalog with two templates, of 6 and 4 of 16 tokens: one bucket holds both."""
    model = intonaco.load(tiny_flux2_folder)
    root = tmp_path_factory.mktemp("catalogs") / "catalog"
    build_noise_template(model, root, editable(rows=slice(16, 48), columns=slice(16, 64)))
    build_noise_template(model, root, editable(rows=slice(16, 48), columns=slice(16, 48)))
    return root


@pytest.fixture(scope="module")
def template(catalog):
    """The folder of one of them."""
    return next(path for path in sorted(catalog.iterdir()) if path.is_dir())


@pytest.fixture
def why(run, tmp_path, tiny_flux2_folder):
    """Return a function from words to the components that `programs why` names."""

    def ask(*words, model=tiny_flux2_folder):
        places = ("-m", model, "--store", tmp_path / "store", "--json")
        result = run("programs", "why", *places, *words)
        assert result.code == 0, result.err
        return [answer["component"] for answer in json.loads(result.out)["programs"]]

    return ask


def test_an_edit_needs_sparse_programs_and_dense_ones_for_what_does_not_come(why, template):
    assert why("--template", template) == ["text_encoder", *SPARSE, *DENSE, "decoder"]


def test_why_says_what_of_a_template_its_programs_depend_on(
    run, template, tiny_flux2_folder, tmp_path
):
    places = ("-m", tiny_flux2_folder, "--store", tmp_path / "store")
    result = run("programs", "why", *places, "--template", template)

    first, *rest = result.out.splitlines()
    bits = json.loads((template / "manifest.json").read_text())["tokens"]["edited"]
    num_edited = bin(int(bits, 16)).count("1")
    assert first == f"template {template.name}: 64x64, {num_edited} of 16 tokens left to edits"
    assert [line.split()[0] for line in rest] == ["text_encoder", *SPARSE, *DENSE, "decoder"]


def test_references_need_further_programs_and_none_less(why, template):
    without = why("--template", template)
    found = why("--template", template, "--reference-size", "64x64")

    bounded = [name for name in found if name.endswith("/bounded")]
    assert bounded == [
        "denoiser/sparse-double[1]/bounded",
        "denoiser/sparse-single[2]/bounded",
        "denoiser/double[1]/bounded",
        "denoiser/single[2]/bounded",
    ]
    edges = ["denoiser/sparse-prologue", "denoiser/prologue", *["denoiser/epilogue"] * 2]
    assert sorted(found) == sorted([*without, *bounded, *edges, "encoder"])


def test_a_shortened_id_names_a_template(why, catalog, template):
    assert why("--template", catalog / template.name[:6]) == why("--template", template)


def test_templates_of_one_bucket_share_their_programs(why, catalog, template):
    assert why("--template", catalog) == why("--template", template)


@pytest.mark.parametrize("is_catalog", [False, True])
def test_a_url_names_what_a_folder_does(why, catalog, template, is_catalog):
    folder = catalog if is_catalog else template

    assert why("--template", folder.as_uri()) == why("--template", folder)


def test_another_bucket_needs_other_programs(why, catalog, tmp_path, tiny_flux2_folder):
    mask_HW = editable(rows=slice(16, 64), columns=slice(16, 64))
    other = build_noise_template(intonaco.load(tiny_flux2_folder), tmp_path / "other", mask_HW)

    found = why("--template", catalog, "--template", other.folder)
    # 9 tokens take a bucket of all 16, whose epilogue is that of dense steps.
    more = [name for name in SPARSE if name != "denoiser/epilogue"]
    assert sorted(found) == sorted(["text_encoder", *SPARSE, *more, *DENSE, "decoder"])


def test_the_probe_is_known_for_edits_too(why, template):
    assert "denoiser/probe" in why("--template", template, "--probe")


def test_a_template_of_another_model_is_refused_with_the_field(run, template, tmp_path):
    other = build_tiny_flux2(tmp_path / "other", seed=1)
    words = ("-m", other, "--store", tmp_path / "store", "--template", template)
    result = run("compile", *words)

    assert result.code == 3
    assert f"template {template.name}: model_digest: the template was captured with" in result.err


def test_templates_of_other_models_are_left_out_of_a_catalog_and_said(
    run, why, catalog, tmp_path, tiny_flux2_folder
):
    mixed = shutil.copytree(catalog, tmp_path / "mixed")
    other = intonaco.load(build_tiny_flux2(tmp_path / "other", seed=1))
    mask_HW = editable(rows=slice(16, 64), columns=slice(16, 64))
    foreign = build_noise_template(other, mixed, mask_HW)

    assert why("--template", mixed) == why("--template", catalog)
    words = ("-m", tiny_flux2_folder, "--store", tmp_path / "store", "--template", mixed)
    result = run("programs", "why", *words)
    assert result.err.count("left out: ") == 1
    assert f"left out: template {foreign.folder.name}: model_digest" in result.err


@pytest.mark.parametrize("backend", ["inductor", "openvino"])
def test_a_model_of_films_has_no_templates(run, template, tmp_path, backend):
    wan = build_tiny_wan(tmp_path / "wan")
    words = ("-m", wan, "--store", tmp_path / "store", "--template", template)
    result = run("compile", "--backend", backend, *words)

    assert result.code == 3
    assert "cannot edit" in result.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--size", "64x64"), 2, "--size cannot be given with --template, got '64x64'"),
        (("--frames", "5"), 2, "--frames cannot be given with --template, got '5'"),
        (("--template", "nowhere/3f"), 3, "template nowhere/3f does not exist"),
        (("--template", "file:///nowhere/at/all"), 3, "store file:///nowhere/at is no folder here"),
        (("--reference-size", "wide"), 2, "--reference-size must be WIDTHxHEIGHT in pixels"),
        (("--reference-size", "48x96"), 2, "reference_size must be at least 64 pixels a side"),
        (("--backend", "eager"), 2, "--backend must be inductor or openvino, got 'eager'"),
    ],
)
def test_what_cannot_be_compiled_for_is_said(
    run, template, tiny_flux2_folder, tmp_path, words, code, message
):
    places = ("-m", tiny_flux2_folder, "--store", tmp_path / "store")
    result = run("compile", *places, "--template", template, *words)

    assert (result.code, message in result.err) == (code, True), result.err


def test_an_empty_catalog_is_said(run, tmp_path, tiny_flux2_folder):
    (tmp_path / "catalog.json").write_text('{"schema_version":1,"templates":[]}')
    result = run("compile", "-m", tiny_flux2_folder, "--template", tmp_path)

    assert result.code == 3
    assert "lists no template" in result.err
