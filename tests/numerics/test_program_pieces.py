"""Every piece of FLUX.2, references included, on every backend that compiles: the eager numbers."""

from importlib import util

import pytest
import torch

from intonaco.backends.eager import EagerBackend
from intonaco.backends.registry import make_backend
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_needs import picture_specs
from intonaco.families.flux2_programs import load_flux2_programs
from intonaco.families.picture_shape import PictureShape
from intonaco.programs.builders import module_builder
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore
from tests.support.comparison import assert_close

# Seven programs; minutes on a busy machine.
pytestmark = [pytest.mark.compiles, pytest.mark.timeout(900)]
PIECES = (
    "text_encoder",
    "encoder",
    "denoiser/prologue",
    "denoiser/double[1]/bounded",
    "denoiser/single[2]/bounded",
    "denoiser/epilogue",
    "decoder",
)
# Their 64 x 64 pixel forms are compiled and compared in test_flux2_programs.
LEFT_OUT = {"inductor": ("text_encoder", "decoder"), "openvino": ()}
# 25 tokens beside a picture of 16: padded to 28.
SHAPE = PictureShape(size=(64, 64), reference_sizes=((80, 80),))
NUM_VALID = 24 + 16 + 25
HAS_OPENVINO = util.find_spec("openvino") is not None


@pytest.fixture(scope="module")
def family(tiny_flux2_folder, tmp_path_factory):
    library = ProgramLibrary(
        store=ArtifactStore(tmp_path_factory.mktemp("eager")), backend=EagerBackend()
    )
    checkpoint = read_checkpoint(tiny_flux2_folder)
    return load_flux2_programs(checkpoint, library, precision="float32", device=torch.device("cpu"))


@pytest.fixture(scope="module")
def specs(family):
    return {spec.component: spec for spec in picture_specs(family, SHAPE)}


@pytest.fixture(
    scope="module",
    params=[
        "inductor",
        pytest.param(
            "openvino",
            marks=pytest.mark.skipif(
                not HAS_OPENVINO, reason="the openvino extra is not installed"
            ),
        ),
    ],
)
def compiled(request, specs, tmp_path_factory):
    """Return the unbound programs of one backend by component, all compiled by one worker."""
    library = ProgramLibrary(
        store=ArtifactStore(tmp_path_factory.mktemp(request.param)),
        backend=make_backend(request.param),
    )
    chosen = [spec for name, spec in specs.items() if name not in LEFT_OUT[request.param]]
    return dict(zip((s.component for s in chosen), library.load(chosen), strict=True))


def constants_of(family, spec):
    component, _, piece = spec.component.partition("/")
    tensors = getattr(family, component)
    weights = tensors.weights.tensors if component == "denoiser" else tensors.tensors
    stack = {"d": "transformer_blocks", "s": "single_transformer_blocks"}.get(piece[:1])
    if "[" not in piece:
        return weights
    return {
        name: weights[name.replace("blocks", stack, 1)] for name in (c.name for c in spec.bound)
    }


def inputs_of(spec):
    generator = torch.Generator().manual_seed(0)
    made = {
        "input_ids": lambda shape: torch.arange(shape[1])[None] % 20,
        "attention_mask": lambda shape: (torch.arange(shape[1]) < 7).long()[None],
        "img_ids": lambda shape: torch.arange(4 * shape[1]).reshape(shape) % 9,
        "txt_ids": lambda shape: torch.arange(4 * shape[1]).reshape(shape) % 9,
        "valid_length": lambda shape: torch.tensor(NUM_VALID),
        "timestep": lambda shape: torch.tensor([0.7]),
    }
    draw = lambda shape: torch.randn(shape, generator=generator)  # noqa: E731
    return [made.get(item.name, draw)(item.shape) for item in spec.inputs]


def test_the_pieces_are_all_there_are(specs):
    assert tuple(specs) == PIECES


@pytest.mark.parametrize("component", PIECES)
def test_a_compiled_piece_gives_the_eager_numbers(compiled, family, specs, component):
    if component not in compiled:
        pytest.skip("compiled and compared in test_flux2_programs")
    spec = specs[component]
    reference = EagerBackend().load(spec, module_builder(spec), None)
    outputs = []
    for program in (compiled[component], reference):
        program.bind(constants_of(family, spec))
        outputs.append(program(*inputs_of(spec)))
    for actual, expected in zip(*outputs, strict=True):
        assert_close(
            actual,
            expected,
            atol=2e-5 * max(1.0, expected.abs().max().item()),
            why="float32 sums in another order through a few layers: 1e-5 of the scale, doubled",
        )
