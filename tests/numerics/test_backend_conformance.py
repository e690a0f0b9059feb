"""One suite for every backend that is installed: same numbers as eager, same refusals."""

from importlib import util

import pytest
import torch

from intonaco.attention.joint import bounded_attention
from intonaco.backends.registry import BACKENDS, make_backend
from intonaco.errors import (
    ProgramBindError,
    ProgramCallError,
    ProgramStateError,
    UnsupportedProgramError,
)
from intonaco.programs.builders import module_builder
from intonaco.programs.compiler import check_supported, ensure_programs
from intonaco.programs.store import ArtifactStore
from tests.support.comparison import assert_close
from tests.support.program_builders import (
    NUM_KEYS,
    ROWS,
    affine_spec,
    bounded_spec,
    probe_spec,
    random_constants,
    random_inputs,
)

# The first test of each backend compiles; on a busy machine that takes minutes.
pytestmark = [pytest.mark.compiles, pytest.mark.timeout(600)]

PRECISIONS = ("float32", "bfloat16", "w8a16", "w8a8")
TOLERANCE = {
    "float32": (2e-6, "sums of 64 products in another order: a few units of 2^-23 at values of 5"),
    "bfloat16": (8e-2, "two roundings to 8 bits of mantissa, 2^-8 each, at values up to 8"),
    "w8a16": (8e-2, "as bfloat16: both sides use the same 8-bit weights"),
    "w8a8": (
        8e-2,
        "one 8-bit level of an input, 3 / 127, times a weight of up to 3, may round apart",
    ),
}
INSTALLED = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name == "openvino" and util.find_spec("openvino") is None,
            reason="the openvino extra is not installed",
        ),
    )
    for name in BACKENDS
]


@pytest.fixture(scope="module", params=INSTALLED)
def load(request, tmp_path_factory):
    """Return a function from a spec to its unbound program; all are compiled by one worker."""
    backend = make_backend(request.param)
    store = ArtifactStore(tmp_path_factory.mktemp("store"))
    specs = [affine_spec(precision=precision) for precision in PRECISIONS]
    specs += [probe_spec(), bounded_spec("slice"), bounded_spec("mask")]
    specs = [spec for spec in specs if not backend.supports(spec)]
    folders = dict.fromkeys((spec.model_dump_json() for spec in specs), store.root)
    if backend.is_compiled:
        folders = dict(zip(folders, ensure_programs(store, backend, specs), strict=True))

    def load_one(spec):
        if backend.supports(spec):
            pytest.skip(f"{backend.name} refuses it: {backend.supports(spec)[0]}")
        return backend.load(spec, module_builder(spec), folders[spec.model_dump_json()])

    load_one.backend = backend
    return load_one


@pytest.mark.usefixtures("each_number_of_threads")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_program_computes_what_the_eager_module_does(load, precision):
    spec = affine_spec(precision=precision)
    constants, inputs = random_constants(spec), random_inputs(spec)
    reference = make_backend("eager").load(spec, module_builder(spec), None)
    atol, why = TOLERANCE[precision]
    outputs = [program.bind(constants) or program(*inputs) for program in (load(spec), reference)]
    for actual, expected in zip(*outputs, strict=True):
        assert_close(actual, expected, atol=atol, why=why)


def test_a_dimension_of_one_may_have_any_stride(load):
    spec = affine_spec()
    program = load(spec)
    program.bind(random_constants(spec))
    x, gate = random_inputs(spec)
    expanded = gate.as_strided(gate.shape, (0, 0, 1))
    assert (expanded.stride(), expanded.is_contiguous()) == ((0, 0, 1), True)
    assert torch.equal(program(x, expanded)[0], program(x, gate)[0])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_tensors_may_lie_at_any_address(load, precision):
    spec = affine_spec(precision=precision)
    constants, inputs = random_constants(spec), random_inputs(spec)
    program, other = load(spec), load(spec)
    program.bind(constants)
    # A kernel with aligned loads ends the process here if it is handed these as they are.
    other.bind({name: moved(tensor) for name, tensor in constants.items()})
    found = other(*(moved(tensor) for tensor in inputs))
    assert all(torch.equal(*pair) for pair in zip(found, program(*inputs), strict=True))


def moved(tensor):
    """Return a copy that starts one element after an aligned address."""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:]
    return room.copy_(tensor.reshape(-1)).reshape(tensor.shape)


def test_one_program_serves_two_sets_of_weights_at_once(load):
    spec = affine_spec()
    inputs = random_inputs(spec)
    first, second = load(spec), load(spec)
    first.bind(random_constants(spec, seed=0))
    alone = first(*inputs)[0]
    second.bind(random_constants(spec, seed=1))
    assert not torch.equal(second(*inputs)[0], alone)
    assert torch.equal(first(*inputs)[0], alone)


def test_a_program_can_be_bound_to_other_weights(load):
    spec = affine_spec()
    inputs = random_inputs(spec)
    program, other = load(spec), load(spec)
    program.bind(random_constants(spec, seed=0))
    program(*inputs)
    program.bind(random_constants(spec, seed=1))
    other.bind(random_constants(spec, seed=1))
    assert torch.equal(program(*inputs)[0], other(*inputs)[0])


def test_weights_are_used_in_place(load):
    spec = affine_spec()
    if load.backend.name == "openvino":
        pytest.skip("openvino repacks weights when it compiles them")
    constants, inputs = random_constants(spec), random_inputs(spec)
    program = load(spec)
    program.bind(constants)
    constants["table"] += 1.0
    y, shifted = program(*inputs)
    assert torch.equal(shifted, y + constants["table"])


def test_results_of_one_call_survive_the_next(load):
    spec = affine_spec()
    program = load(spec)
    program.bind(random_constants(spec))
    first = program(*random_inputs(spec, seed=1))[0]
    kept = first.clone()
    program(*random_inputs(spec, seed=2))
    assert torch.equal(first, kept)


def test_an_unbound_program_is_refused(load):
    spec = affine_spec()
    with pytest.raises(ProgramBindError, match=r"'test/affine' is not bound.*'proj.weight' first"):
        load(spec)(*random_inputs(spec))


def test_a_missing_constant_is_refused_by_name(load):
    spec = affine_spec()
    constants = random_constants(spec)
    del constants["table"]
    with pytest.raises(ProgramBindError, match=r"needs the derived 'table'"):
        load(spec).bind(constants)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[:-1], r"'proj.bias' must be float32 \(64,\), got float32 \(63,\)"),
        (lambda t: t.half(), r"'proj.bias' must be float32 \(64,\), got float16 \(64,\)"),
        (
            lambda t: t.repeat_interleave(2)[::2],
            r"'proj.bias' must be contiguous, got stride \(2,\)",
        ),
        (lambda t: t.tolist(), r"'proj.bias' must be a tensor, got list"),
    ],
)
def test_a_constant_of_another_kind_is_refused(load, change, message):
    spec = affine_spec()
    constants = random_constants(spec)
    constants["proj.bias"] = change(constants["proj.bias"])
    with pytest.raises(ProgramBindError, match=message):
        load(spec).bind(constants)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[:, 1:], r"input 'x' must be float32 \(1, 4, 64\), got float32 \(1, 3, 64\)"),
        (lambda t: t.double(), r"input 'x' must be float32 \(1, 4, 64\), got float64 \(1, 4, 64\)"),
        (lambda t: t.mT.contiguous().mT, r"input 'x' must be contiguous, got stride"),
        (lambda t: 3, r"input 'x' must be a tensor, got int 3; only tensors cross"),
    ],
)
def test_an_input_of_another_kind_is_refused(load, change, message):
    spec = affine_spec()
    program = load(spec)
    program.bind(random_constants(spec))
    x, gate = random_inputs(spec)
    with pytest.raises(ProgramCallError, match=message):
        program(change(x), gate)


def test_a_missing_input_is_refused(load):
    spec = affine_spec()
    program = load(spec)
    program.bind(random_constants(spec))
    with pytest.raises(ProgramCallError, match=r"takes 2 inputs \(x, gate\), got 1"):
        program(random_inputs(spec)[0])


def test_state_persists_between_calls_and_is_zeroed_by_reset(load):
    spec = probe_spec()
    program = load(spec)
    program.bind(random_constants(spec))
    program.reset()
    x = random_inputs(spec)[0]
    first, second = program(x)[0].item(), program(x)[0].item()
    program.reset()
    assert (second, program(x)[0].item()) == (0.0, first)


def test_a_program_with_state_must_be_reset_before_its_first_call(load):
    spec = probe_spec()
    program = load(spec)
    program.bind(random_constants(spec))
    with pytest.raises(ProgramStateError, match=r"state 'previous' that was never set.*reset\(\)"):
        program(torch.zeros(ROWS, 64))


def test_two_loads_of_one_program_have_separate_state(load):
    spec = probe_spec()
    first, second = load(spec), load(spec)
    for program in (first, second):
        program.bind(random_constants(spec))
        program.reset()
    x = random_inputs(spec)[0]
    score = first(x)[0].item()
    assert second(x)[0].item() == score


@pytest.mark.usefixtures("each_number_of_threads")
@pytest.mark.parametrize("form", ["slice", "mask"])
def test_one_program_serves_every_text_length_and_never_reads_padding(load, form):
    spec = bounded_spec(form)
    program = load(spec)
    program.bind({})
    q, k, v = random_inputs(spec)[:3]
    for length in (1, 5, NUM_KEYS):
        bound = torch.tensor(length)
        expected = bounded_attention(q, k, v, bound)
        actual = program(q, k, v, bound)[0]
        assert_close(actual, expected, atol=1e-6, why="12 terms near 1 summed in another order")
        k[:, :, length:], v[:, :, length:] = 1e4, 1e4
        assert torch.equal(program(q, k, v, bound)[0], actual)
        q, k, v = random_inputs(spec, seed=length)[:3]


def test_every_reason_against_a_program_is_given_before_compiling():
    spec = probe_spec().model_copy(update={"needs": ("collectives",), "device": "cuda"})
    with pytest.raises(UnsupportedProgramError) as caught:
        check_supported(make_backend("openvino"), [spec])
    assert all(word in str(caught.value) for word in ("device='cuda'", "previous", "collectives"))
