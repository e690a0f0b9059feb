"""Edits on template state by programs: what the eager modules draw, and one program per bucket."""

from dataclasses import dataclass, replace

import pytest
import torch

from intonaco.backends.registry import make_backend
from intonaco.errors import GenerationCancelled, UnsupportedError
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_modules import load_flux2
from intonaco.families.flux2_needs import picture_specs
from intonaco.families.flux2_programs import load_flux2_programs
from intonaco.families.flux2_state_specs import sparse_shape
from intonaco.families.picture_shape import PictureShape
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.pipelines.edit import edit
from intonaco.pipelines.generate import generate
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.spec import make_key
from intonaco.programs.store import ArtifactStore
from intonaco.template.capture import capture_in_memory
from tests.numerics.test_template_edit import pixels, random_picture, tokens
from tests.support.comparison import assert_close

pytestmark = [pytest.mark.compiles, pytest.mark.timeout(900)]
CPU = torch.device("cpu")
REQUEST = GenerateRequest(prompt="a girl in red", seed=3, width=96, height=64, num_steps=2)
EDITED = tokens(slice(1, 3), slice(2, 5))
WHY = "float32 sums in another order, over two steps"


@pytest.fixture(scope="module")
def eager(tiny_flux2_folder):
    return load_flux2(read_checkpoint(tiny_flux2_folder), dtype=torch.float32, device=CPU)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ArtifactStore(tmp_path_factory.mktemp("store"))


def load(folder, store, backend="eager", **changes):
    library = ProgramLibrary(store=store, backend=make_backend(backend), **changes)
    checkpoint = read_checkpoint(folder)
    return load_flux2_programs(checkpoint, library, precision="float32", device=CPU, group_size=2)


def compile_for_edits(folder, store, backend):
    """Compile what edits with all of their state need, in one process: a compiler starts for 20 s."""
    family = load(folder, store, backend)
    num_edited = int(EDITED.sum())
    specs = picture_specs(family, PictureShape(size=(96, 64), num_edited_tokens=num_edited))
    shape = sparse_shape(
        num_drawn_tokens=EDITED.size,
        num_edited_tokens=num_edited,
        num_reference_tokens=0,
        num_text_tokens=family.tokenizer.max_sequence_length,
    )
    dense = family.denoiser.specs(shape.dense).all
    family.denoiser.library.ensure([spec for spec in specs if spec not in dense])


def capture(family, tokens_YX=EDITED, picture_seed=1, num_steps=2):
    return capture_in_memory(
        family,
        replace(REQUEST, num_steps=num_steps),
        picture=random_picture(96, 64, seed=picture_seed),
        tokens_YX=tokens_YX,
        model_digest="0" * 64,
    )


def run(family, state, request=REQUEST, **more):
    return edit(
        family,
        request,
        template=state.picture,
        mask_HW=pixels(state.tokens_YX),
        reuse=state.reuse(),
        **more,
    )


@pytest.mark.parametrize(
    ("backend", "has_reference"), [("eager", False), ("eager", True), ("inductor", False)]
)
def test_programs_draw_what_the_eager_modules_draw(
    tiny_flux2_folder, store, eager, backend, has_reference
):
    # 6 edited tokens in a bucket of 8; 20 reference tokens in a bucket of 24.
    references = (random_picture(64, 80, seed=2),) if has_reference else ()
    request = replace(REQUEST, prompt="a tall boy", seed=11, references=references)
    state = capture(eager)
    compile_for_edits(tiny_flux2_folder, store, backend)
    # What was named ahead is all that it takes.
    family = load(tiny_flux2_folder, store, backend, may_compile=False)
    actual = run(family, state, request).generation
    expected = run(eager, state, request).generation

    assert_close(actual.latents, expected.latents, atol=2e-5, why=WHY)


@dataclass(frozen=True)
class Serving:
    """Everything that may change between two edits; each test changes one."""

    prompt: str = "a girl in red"
    seed: int = 3
    num_steps: int = 2
    picture_seed: int = 1
    edited: tuple[slice, slice] = (slice(1, 3), slice(2, 5))
    reference_size: tuple[int, int] = (64, 80)

    def programs(self, folder, store, eager) -> frozenset[str]:
        """Edit with these settings, and return the digests of the programs of edited tokens."""
        family = load(folder, store)
        state = capture(eager, tokens(*self.edited), self.picture_seed, self.num_steps)
        references = (random_picture(*self.reference_size, seed=2),)
        run(
            family,
            state,
            replace(
                REQUEST,
                prompt=self.prompt,
                seed=self.seed,
                num_steps=self.num_steps,
                references=references,
            ),
        )
        chains = family.denoiser.sparse_chains.values()
        return frozenset(
            make_key(program.spec, {"backend": "b"}).digest
            for chain in chains
            for program in (chain.prologue, *chain.double, *chain.single, chain.epilogue)
        )


@pytest.fixture(scope="module")
def known(tiny_flux2_folder, store, eager):
    return Serving().programs(tiny_flux2_folder, store, eager)


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a tall boy with green hair"},
        {"seed": 11},
        {"num_steps": 3},
        {"picture_seed": 9},
        {"edited": (slice(1, 3), slice(1, 5))},
        {"edited": (slice(0, 1), slice(0, 1))},
        {"reference_size": (64, 96)},
    ],
    ids=str,
)
def test_what_a_request_brings_recompiles_nothing(tiny_flux2_folder, store, eager, known, change):
    assert Serving(**change).programs(tiny_flux2_folder, store, eager) == known


@pytest.mark.parametrize(
    "change",
    [{"edited": (slice(1, 4), slice(2, 5))}, {"reference_size": (96, 96)}],
    ids=str,
)
def test_another_bucket_is_another_program(tiny_flux2_folder, store, eager, known, change):
    assert Serving(**change).programs(tiny_flux2_folder, store, eager).isdisjoint(known)


def test_a_second_edit_loads_no_program(tiny_flux2_folder, store, eager):
    family, state = load(tiny_flux2_folder, store), capture(eager)
    run(family, state)
    (first,) = family.denoiser.sparse_chains.values()
    run(family, state, replace(REQUEST, seed=12))

    (second,) = family.denoiser.sparse_chains.values()
    assert second is first


def test_an_edit_can_be_cancelled_between_block_groups(tiny_flux2_folder, store, eager):
    family, state = load(tiny_flux2_folder, store), capture(eager)
    asked = []

    def is_cancelled():
        asked.append(None)
        return len(asked) == 3

    denoising = state_runs(family).reusing(state.source, state.tokens_YX.reshape(-1))
    with pytest.raises(GenerationCancelled, match="within step 1 of 2"):
        generate(denoising, REQUEST, is_cancelled=is_cancelled)


def test_a_family_on_programs_captures_nothing(tiny_flux2_folder, store):
    with pytest.raises(UnsupportedError, match="captured on eager modules"):
        capture(load(tiny_flux2_folder, store))
