"""After `intonaco compile --template` an edit on the template compiles nothing, however it comes."""

import subprocess
import sys
from dataclasses import dataclass, replace
from importlib import util

import numpy as np
import pytest

import intonaco
from intonaco.cli import main
from intonaco.device.edit import TemplateSession
from intonaco.device.link import TemplateLink
from intonaco.errors import ArtifactMissingError, StateGoneError
from intonaco.families.template_state import StateSource
from intonaco.programs.store import ArtifactStore
from intonaco.template.loading import load_template
from tests.numerics.test_template_edit import random_picture
from tests.support.comparison import assert_close
from tests.support.compile_checks import check_progress, check_second_run, check_why
from tests.support.studio import build_noise_template

pytestmark = [
    pytest.mark.compiles,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        util.find_spec("openvino") is None, reason="the openvino extra is not installed"
    ),
]
# Text encoder, encoder, decoder, and four programs each: edited tokens or all, with references or not.
NUM_PROGRAMS = 3 + 4 * 4
REFERENCE = (64, 64)


def template_of(model, catalog, *, rows: slice, columns: slice):
    mask_HW = np.zeros((64, 64), dtype=np.bool_)
    mask_HW[rows, columns] = True
    return build_noise_template(model, catalog, mask_HW)


@pytest.fixture(scope="module")
def eager(tiny_flux2_folder):
    return intonaco.load(tiny_flux2_folder)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def templates(eager, tmp_path_factory):
    """Two templates of one catalog, 6 and 4 of 16 tokens: one bucket."""
    catalog = tmp_path_factory.mktemp("catalog")
    return (
        template_of(eager, catalog, rows=slice(16, 48), columns=slice(16, 64)),
        template_of(eager, catalog, rows=slice(16, 48), columns=slice(16, 48)),
    )


@pytest.fixture(scope="module")
def words(tiny_flux2_folder, store, templates):
    places = ["-m", str(tiny_flux2_folder), "--store", str(store), "--backend", "openvino"]
    width, height = REFERENCE
    catalog = str(templates[0].folder.parent)
    return [*places, "--template", catalog, "--reference-size", f"{width}x{height}"]


@pytest.fixture(scope="module")
def compiled(words):
    """Return the finished command, which compiled them all."""
    command = [sys.executable, "-m", "intonaco", "compile", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def model(tiny_flux2_folder, store, compiled):
    """The model on programs that may compile nothing."""
    return intonaco.load(tiny_flux2_folder, backend="openvino", store=store, may_compile=False)


def test_every_program_is_compiled_once_with_a_line_for_each(compiled, store):
    check_progress(compiled.stderr, NUM_PROGRAMS)
    assert f"{NUM_PROGRAMS} programs in {store}, for edits on 2 templates" in compiled.stdout
    assert len(ArtifactStore(store).manifests()) == NUM_PROGRAMS


@pytest.mark.usefixtures("compiled")
def test_a_second_run_compiles_nothing(words, capsys):
    check_second_run(words, capsys)


@pytest.mark.usefixtures("compiled")
def test_why_finds_them_all(words, capsys):
    check_why(words, capsys, NUM_PROGRAMS)


@pytest.mark.parametrize("has_reference", [False, True])
@pytest.mark.parametrize("index", [0, 1])
def test_an_edit_compiles_nothing_and_draws_what_the_eager_model_draws(
    model, eager, templates, index, has_reference
):
    references = [random_picture(*REFERENCE, seed=2)] if has_reference else []
    drawn = [edit(one, templates[index], references) for one in (model, eager)]

    assert drawn[0].receipt.backend == "openvino"
    assert_close(
        *(np.asarray(picture.image) for picture in drawn),
        atol=1,
        why="float32 sums in another order; a difference below one level may cross a rounding edge",
    )


def test_the_command_line_edits_and_the_store_stays_as_it_is(
    tiny_flux2_folder, store, templates, compiled, tmp_path, monkeypatch
):
    monkeypatch.setenv("INTONACO_STORE", str(store))
    before = {manifest.digest: manifest.created for manifest in ArtifactStore(store).manifests()}
    places = ["-m", str(tiny_flux2_folder), "--backend", "openvino", "-o", str(tmp_path / "e.png")]
    assert main(["edit", "--template", str(templates[0].folder), "-p", "a girl", *places]) == 0

    after = {manifest.digest: manifest.created for manifest in ArtifactStore(store).manifests()}
    assert after == before


def test_a_streamed_edit_compiles_nothing(model, templates):
    with TemplateLink(templates[0].folder.as_uri()) as link:
        streamed = TemplateSession(model, link).edit(
            prompt="a tall boy", references=[random_picture(*REFERENCE, seed=2)]
        )

    assert streamed.picture.receipt.backend == "openvino"


@pytest.mark.parametrize("has_reference", [False, True])
def test_an_edit_whose_state_is_gone_goes_on_dense_and_compiles_nothing(
    model, templates, has_reference
):
    state = load_template(templates[0])
    gone = replace(state, source=GoneAfter(state.source, num_steps=1))
    references = [random_picture(*REFERENCE, seed=2)] if has_reference else []
    picture = model.edit(
        state.picture,
        state.editable_pixels(),
        prompt="a tall boy",
        references=references,
        template_state=gone,
    )

    assert gone.source.num_refusals > 0
    assert picture.receipt.backend == "openvino"


def test_a_template_of_another_bucket_is_refused_where_nothing_may_compile(model, eager, tmp_path):
    other = template_of(eager, tmp_path, rows=slice(16, 64), columns=slice(16, 64))

    with pytest.raises(ArtifactMissingError, match="no program 'denoiser/sparse-prologue'"):
        edit(model, other, [])


def edit(model, template, references):
    state = load_template(template)
    return model.edit(
        state.picture,
        state.editable_pixels(),
        prompt="a tall boy",
        references=references,
        seed=11,
        template_state=state,
    )


@dataclass
class GoneAfter:
    """A source that has nothing from step `num_steps` on, and counts who asks for it."""

    source: StateSource
    num_steps: int
    num_refusals: int = 0

    @property
    def shape(self):
        return self.source.shape

    def read(self, step, block):
        if step < self.num_steps:
            return self.source.read(step, block)
        self.num_refusals += 1
        raise StateGoneError("the rest of this state is gone")
