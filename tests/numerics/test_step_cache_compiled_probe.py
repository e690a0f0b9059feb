"""The change probe as a compiled program: the eager scores, the denoiser's own weights, one scalar."""

import pytest
import torch

from intonaco.backends.registry import make_backend
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.picture_shape import PictureShape
from intonaco.families.registry import load_family, load_family_on_programs
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.generate import generate
from intonaco.pipelines.probes import make_change_probe, probe_specs
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore
from intonaco.stepcache.policies import Adaptive, Curve, Window
from intonaco.stepcache.settings import StepCacheSettings
from tests.support.comparison import assert_close
from tests.support.tiny_wan import build_tiny_wan

# One program for each family; minutes on a busy machine.
pytestmark = [pytest.mark.compiles, pytest.mark.timeout(600)]
CPU = torch.device("cpu")
SHAPES = {
    "flux2": PictureShape(size=(64, 64)),
    "wan": PictureShape(size=(32, 32), num_frames=9),
}
ADAPTIVE = StepCacheSettings(
    policy=Adaptive(
        threshold=10.0,
        curve=Curve(coefficients=(0.0, 1.0), center=0.0, scale=1.0, low=0.0, high=1.0),
    ),
    window=Window(first=2, last=1),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def folders(tiny_flux2_folder, tmp_path_factory):
    wan = build_tiny_wan(tmp_path_factory.mktemp("wan"), scheduler="euler")
    return {"flux2": tiny_flux2_folder, "wan": wan}


def on_programs(folder, store, backend):
    library = ProgramLibrary(store=store, backend=make_backend(backend))
    checkpoint = read_checkpoint(folder)
    return load_family_on_programs(checkpoint, library, precision="float32", device=CPU)


def inputs_of(spec, step):
    generator = torch.Generator().manual_seed(step)
    shapes = {item.name: item.shape for item in spec.inputs}
    return {
        "hidden_states": torch.randn(shapes["hidden_states"], generator=generator),
        "timestep": torch.tensor([0.9 - 0.2 * step]),
        "img_ids": torch.zeros(1, shapes["hidden_states"][1], 4, dtype=torch.int64),
    }


@pytest.fixture(scope="module")
def compiled_probes(folders, store):
    """Return the families on compiled programs by name, with both probes from one compiler."""
    families = {name: on_programs(folder, store, "inductor") for name, folder in folders.items()}
    library = ProgramLibrary(store=store, backend=make_backend("inductor"))
    specs = [probe_specs(family, library, SHAPES[name]) for name, family in families.items()]
    library.ensure([spec for (spec,) in specs])
    return families


@pytest.mark.parametrize("name", ["flux2", "wan"])
def test_the_compiled_probe_scores_as_the_eager_one_does(folders, compiled_probes, name):
    compiled = compiled_probes[name]
    (spec,) = probe_specs(compiled, compiled.denoiser.library, SHAPES[name])
    eager = load_family(read_checkpoint(folders[name]), dtype=torch.float32, device=CPU)
    probes = [make_change_probe(family) for family in (compiled, eager)]
    for generation in range(2):
        for probe in probes:
            probe.reset()
        for step in range(4):
            inputs = inputs_of(spec, 4 * generation + step)
            if name == "wan":
                del inputs["img_ids"]
            actual, expected = (probe(inputs) for probe in probes)
            assert (actual.shape, actual.dtype) == ((1, 1), torch.float32)
            # The first score of a generation compares with nothing.
            if step:
                assert_close(
                    actual, expected, atol=1e-5, why="means of float32 sums in another order"
                )


@pytest.mark.parametrize("name", ["flux2", "wan"])
def test_the_probe_binds_the_denoisers_own_tensors(folders, store, name):
    family = on_programs(folders[name], store, "eager")
    (spec,) = probe_specs(family, family.denoiser.library, SHAPES[name])
    probe = make_change_probe(family)
    tensors = getattr(probe, "probe", probe).tensors
    own = {tensor.data_ptr() for tensor in family.denoiser.weights.tensors.values()}
    assert spec.bound
    assert all(tensors[item.name].data_ptr() in own for item in spec.bound)


def test_a_backend_without_state_leaves_the_probe_to_the_eager_one(folders, store):
    library = ProgramLibrary(store=store, backend=make_backend("openvino"))
    family = on_programs(folders["flux2"], store, "eager")
    assert probe_specs(family, library, SHAPES["flux2"]) == []


def test_references_do_not_change_what_the_probe_sees(folders, store):
    family = on_programs(folders["flux2"], store, "eager")
    (spec,) = probe_specs(family, family.denoiser.library, SHAPES["flux2"])
    first, second = inputs_of(spec, 0), inputs_of(spec, 1)
    scores = []
    for num_reference_tokens in (0, 5):
        probe = make_change_probe(family)
        probe.reset()
        for inputs in (first, second):
            rows = torch.ones(1, num_reference_tokens, inputs["hidden_states"].shape[2])
            times = torch.full((1, num_reference_tokens, 4), 10)
            score = probe(
                {
                    "hidden_states": torch.cat([inputs["hidden_states"], rows], dim=1),
                    "timestep": inputs["timestep"],
                    "img_ids": torch.cat([inputs["img_ids"], times], dim=1),
                }
            )
        scores.append(score.item())
    assert scores[0] == scores[1]
    reference = PictureShape(size=(64, 64), reference_sizes=((80, 80),))
    assert probe_specs(family, family.denoiser.library, reference) == [spec]


def test_an_adaptive_generation_on_eager_programs_decides_as_on_modules(folders, store):
    request = GenerateRequest(prompt="a hat", seed=1, width=64, height=64, num_steps=8)
    families = (
        on_programs(folders["flux2"], store, "eager"),
        load_family(read_checkpoint(folders["flux2"]), dtype=torch.float32, device=CPU),
    )
    reports = [
        generate(family, request, step_cache=StepCacheRequest(settings=ADAPTIVE)).step_cache
        for family in families
    ]
    assert reports[0].records == reports[1].records
    assert reports[0].counters["calls_skipped"] > 0
