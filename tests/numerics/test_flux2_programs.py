"""FLUX.2 klein on programs draws what its eager modules draw, and recompiles only when it must."""

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from intonaco.backends.registry import make_backend
from intonaco.errors import GenerationCancelled, UnsupportedError
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_needs import picture_specs
from intonaco.families.flux2_programs import load_flux2_programs
from intonaco.families.flux2_shapes import denoiser_shape
from intonaco.families.picture_shape import PictureShape
from intonaco.families.registry import load_family, load_family_on_programs
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.generate import generate
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore
from tests.support.comparison import assert_close
from tests.support.tiny_flux2 import build_tiny_flux2

pytestmark = [pytest.mark.compiles, pytest.mark.timeout(900)]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ArtifactStore(tmp_path_factory.mktemp("store"))


def load(folder, store, *, backend="eager", precision="float32", group_size=1, **changes):
    library = ProgramLibrary(store=store, backend=make_backend(backend), **changes)
    checkpoint = read_checkpoint(folder)
    return load_flux2_programs(
        checkpoint, library, precision=precision, device=CPU, group_size=group_size
    )


@pytest.fixture(scope="module")
def eager(tiny_flux2_folder):
    return load_family(read_checkpoint(tiny_flux2_folder), dtype=torch.float32, device=CPU)


def make_request(**changes):
    fields = {"prompt": "a tall girl with red hair", "seed": 5, "width": 64, "height": 64}
    return GenerateRequest(**{**fields, "num_steps": 2, **changes})


def picture(width, height, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("group_size", [1, 2])
@pytest.mark.parametrize("references", [(), ((64, 64),), ((64, 80), (80, 64))])
def test_eager_programs_draw_the_same_bytes_as_the_modules(
    tiny_flux2_folder, store, eager, group_size, references
):
    pictures = tuple(picture(*size) for size in references)
    request = make_request(references=pictures)
    family = load(tiny_flux2_folder, store, group_size=group_size)
    # References reach the eager encoder channels last, and its convolutions then sum in another
    # order; a program's inputs are contiguous.
    modules = eager.with_components(
        encoder=lambda inputs: eager.encoder({"pixels": inputs["pixels"].contiguous()})
    )
    actual, expected = generate(family, request), generate(modules, request)
    assert torch.equal(actual.latents, expected.latents)
    assert actual.image.tobytes() == expected.image.tobytes()


@pytest.mark.parametrize("size", [(80, 80), (112, 80)])
def test_references_that_are_padded_to_a_bucket_draw_the_modules_picture(
    tiny_flux2_folder, store, eager, size
):
    request = make_request(references=(picture(*size),))
    family = load(tiny_flux2_folder, store)
    actual, expected = (generate(one, request) for one in (family, eager))
    assert_close(
        actual.latents,
        expected.latents,
        atol=2e-5 * expected.latents.abs().max().item(),
        why="padded products sum in another order: 1e-5 of the scale a step, two steps",
    )


def test_what_stands_in_the_padding_of_references_changes_no_bit(tiny_flux2_folder, store):
    shape = denoiser_shape(num_drawn_tokens=16, num_reference_tokens=25, num_text_tokens=24)
    chain = load(tiny_flux2_folder, store).denoiser.chain(shape)
    num_valid, generator = 16 + 25, torch.Generator().manual_seed(0)
    hidden, context, *rest = (
        torch.randn(item.shape, generator=generator)
        for item in chain.double[0].spec.inputs
        if item.name != "valid_length"
    )
    outputs = []
    for filler in (1e4, torch.randn(1, shape.num_image_tokens - num_valid, 64)):
        hidden[:, num_valid:] = filler
        bound = torch.tensor(24 + num_valid)
        image, text = chain.double[0](hidden, context, *rest, bound)
        joint = torch.cat([text, image], dim=1)
        (joint,) = chain.single[0](joint, rest[0][:, : 3 * 64].contiguous(), *rest[-2:], bound)
        outputs.append(joint[:, : 24 + num_valid])
    assert torch.equal(*outputs)


def test_a_generation_can_be_cancelled_within_a_step(tiny_flux2_folder, store):
    calls = []

    def cancel_at_the_second_group():
        calls.append(None)
        if len(calls) == 2:
            raise GenerationCancelled("cancelled between two block groups")

    family = load(tiny_flux2_folder, store, between_calls=cancel_at_the_second_group)
    with pytest.raises(GenerationCancelled, match="between two block groups"):
        generate(family, make_request())
    assert len(calls) == 2


def test_a_request_can_be_cancelled_between_two_block_groups(tiny_flux2_folder, store):
    asked, steps = [], []

    def is_cancelled() -> bool:
        asked.append(None)
        return len(asked) > 6  # once before each step and before each of three groups

    family = load(tiny_flux2_folder, store)
    with pytest.raises(GenerationCancelled, match="cancelled within step 2 of 2"):
        generate(family, make_request(), progress=steps.append, is_cancelled=is_cancelled)
    assert (len(asked), len(steps)) == (7, 1)
    assert family.denoiser.library.between_calls is None


def test_a_request_on_modules_is_cancelled_before_its_next_step(eager):
    steps = []
    with pytest.raises(GenerationCancelled, match="cancelled within step 2 of 2"):
        generate(eager, make_request(), progress=steps.append, is_cancelled=lambda: bool(steps))


def test_a_family_without_programs_is_refused(tiny_flux2_folder, store):
    checkpoint = replace(read_checkpoint(tiny_flux2_folder), class_name="OtherPipeline")
    library = ProgramLibrary(store=store, backend=make_backend("eager"))
    with pytest.raises(UnsupportedError, match=r"an? OtherPipeline, which has no programs here"):
        load_family_on_programs(checkpoint, library, precision="float32", device=CPU)


def test_a_device_that_has_no_programs_is_refused(tiny_flux2_folder, store):
    library = ProgramLibrary(store=store, backend=make_backend("inductor"))
    with pytest.raises(UnsupportedError, match=r"device must be 'cpu' on programs.*got 'meta'"):
        load_family_on_programs(
            read_checkpoint(tiny_flux2_folder),
            library,
            precision="float32",
            device=torch.device("meta"),
        )


def test_one_reference_and_two_of_the_same_total_length_share_a_program(tiny_flux2_folder, store):
    family = load(tiny_flux2_folder, store)
    denoisers = []
    for sizes in (((64, 128),), ((64, 64), (64, 64))):
        specs = picture_specs(family, PictureShape(size=(64, 64), reference_sizes=sizes))
        denoisers.append([spec for spec in specs if spec.component.startswith("denoiser")])
    assert denoisers[0] == denoisers[1]


def test_groups_of_one_kind_share_a_program(tiny_flux2_folder, store):
    specs = picture_specs(load(tiny_flux2_folder, store), PictureShape(size=(64, 64)))
    singles = [spec for spec in specs if spec.component == "denoiser/single[1]"]
    assert len(singles) == 2
    assert singles[0] == singles[1]


@pytest.fixture(scope="module")
def compiled(tiny_flux2_folder, store):
    """The whole model on AOTInductor, one block per group: seven programs, compiled once."""
    family = load(tiny_flux2_folder, store, backend="inductor")
    # All at once: one compiling process serves them all.
    family.denoiser.library.ensure(picture_specs(family, PictureShape(size=(64, 64))))
    return family


@pytest.mark.usefixtures("each_number_of_threads")
def test_compiled_programs_draw_the_eager_picture_within_a_bound(compiled, eager):
    actual, expected = (generate(family, make_request()) for family in (compiled, eager))
    assert_close(
        actual.latents,
        expected.latents,
        atol=2e-5 * expected.latents.abs().max().item(),
        why="float32 sums in another order through 3 blocks and 2 steps: 1e-5 of the scale, doubled",
    )
    assert_close(
        np.asarray(actual.image),
        np.asarray(expected.image),
        atol=1,
        why="a difference below one level may still cross a rounding edge",
    )


def test_compiled_code_takes_the_threads_of_the_process_that_calls_it(compiled):
    # By default it would carry the number that the compiling process had, or no threads at all.
    (spec, *_) = picture_specs(compiled, PictureShape(size=(64, 64)))
    (folder,) = compiled.denoiser.library.ensure([spec])
    with zipfile.ZipFile(folder / "program.pt2") as package:
        (name,) = [name for name in package.namelist() if name.endswith(".kernel.cpp")]
        code = package.read(name).decode()
    assert "#pragma omp parallel\n" in code
    assert "num_threads(" not in code


def test_a_restart_compiles_nothing(compiled, tiny_flux2_folder, store):
    family = load(tiny_flux2_folder, store, backend="inductor", may_compile=False)
    actual, expected = (generate(one, make_request(num_steps=1)) for one in (family, compiled))
    assert torch.equal(actual.latents, expected.latents)


def test_other_weights_need_no_compiling(compiled, tmp_path, store):
    other_folder = build_tiny_flux2(tmp_path / "tiny-flux2", seed=1)
    family = load(other_folder, store, backend="inductor", may_compile=False)
    other = load_family(read_checkpoint(other_folder), dtype=torch.float32, device=CPU)
    actual, expected = (generate(one, make_request(num_steps=1)) for one in (family, other))
    assert_close(
        actual.latents,
        expected.latents,
        atol=2e-5 * expected.latents.abs().max().item(),
        why="as for the first checkpoint",
    )


SERVE_ELSEWHERE = """
import sys
from pathlib import Path
import torch
from intonaco.backends.registry import make_backend
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_programs import load_flux2_programs
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.generate import generate
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore

backend = make_backend("inductor")
assert not backend.probe_compiler().is_available
library = ProgramLibrary(
    store=ArtifactStore(Path(sys.argv[2])), backend=backend, may_compile=False
)
family = load_flux2_programs(
    read_checkpoint(Path(sys.argv[1])), library,
    precision="float32", device=torch.device("cpu"), group_size=1,
)
request = GenerateRequest(
    prompt="a tall girl with red hair", seed=5, width=64, height=64, num_steps=2
)
generate(family, request).image.save(sys.argv[3])
print("torch._inductor.codecache" in sys.modules)
"""


def test_a_copied_store_serves_where_there_is_no_compiler(
    compiled, tiny_flux2_folder, store, tmp_path
):
    copy = shutil.copytree(store.root, tmp_path / "copy")
    result = subprocess.run(
        [sys.executable, "-c", SERVE_ELSEWHERE, tiny_flux2_folder, copy, tmp_path / "drawn.png"],
        env={**os.environ, "CXX": "/no/such/compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout.strip()) == (0, "False"), result.stderr[-2000:]
    with Image.open(tmp_path / "drawn.png") as drawn:
        assert drawn.tobytes() == generate(compiled, make_request()).image.tobytes()
