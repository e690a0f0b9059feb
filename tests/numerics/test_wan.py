"""Wan 2.1 through the one loop draws what diffusers' WanPipeline draws."""

import numpy as np
import pytest
import torch
from diffusers import WanPipeline

from intonaco.backends.registry import make_backend
from intonaco.errors import PromptTooLongError, RequestError, UnsupportedError
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.registry import load_family
from intonaco.families.request import GenerateRequest
from intonaco.families.wan_programs import load_wan_programs
from intonaco.pipelines.generate import generate
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore
from tests.support.comparison import assert_close
from tests.support.tiny_wan import MAX_SEQUENCE_LENGTH, build_tiny_wan

pytestmark = pytest.mark.timeout(600)
PROMPT, NEGATIVE = "a cat walks slowly", "blurry dark"
WHY = "the same operations on the same modules; one part in 10^5 of the scale is allowed"


@pytest.fixture(scope="module", params=["unipc", "euler"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("wan") / request.param
    return build_tiny_wan(path, scheduler=request.param)


@pytest.fixture(scope="module")
def family(folder):
    checkpoint = read_checkpoint(folder)
    return load_family(checkpoint, dtype=torch.float32, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def pipeline(folder):
    pipeline = WanPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def make_request(**changes):
    fields = {"prompt": PROMPT, "seed": 3, "width": 32, "height": 48, "num_steps": 3}
    return GenerateRequest(**{**fields, "num_frames": 9, "negative_prompt": NEGATIVE, **changes})


def draw_reference(pipeline, request, output_type):
    return pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        width=request.width,
        height=request.height,
        num_frames=request.num_frames,
        num_inference_steps=request.num_steps,
        guidance_scale=5.0 if request.guidance_scale is None else request.guidance_scale,
        generator=torch.Generator().manual_seed(request.seed),
        max_sequence_length=MAX_SEQUENCE_LENGTH,
        output_type=output_type,
    ).frames


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"guidance_scale": 2.5, "num_frames": 5, "seed": 4},
        {"guidance_scale": 1.0, "negative_prompt": None, "num_frames": 1},
    ],
)
def test_latents_equal_those_of_the_reference_pipeline(family, pipeline, changes):
    request = make_request(**changes)
    expected = draw_reference(pipeline, request, "latent")
    actual = generate(family, request).latents
    assert_close(actual, expected, atol=1e-5 * expected.abs().max().item(), why=WHY)


@pytest.mark.usefixtures("each_number_of_threads")
def test_frames_equal_those_of_the_reference_pipeline(family, pipeline):
    request = make_request()
    expected = np.stack(draw_reference(pipeline, request, "pil")[0])
    actual = np.stack(generate(family, request).images)
    assert np.array_equal(actual, expected)


def test_decoding_in_chunks_equals_decoding_the_whole_film(family, pipeline):
    latents = torch.randn(1, 4, 4, 4, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = pipeline.vae.decode(latents, return_dict=False)[0]
    assert torch.equal(family.decoder({"latents": latents}), whole)


def test_the_text_encoder_never_reads_what_its_padding_holds(family):
    outputs = []
    for filler in (0, 7):
        ids = torch.full((1, MAX_SEQUENCE_LENGTH), filler)
        ids[0, :3] = torch.tensor([4, 5, 1])
        mask = torch.zeros(1, MAX_SEQUENCE_LENGTH, dtype=torch.int64)
        mask[0, :3] = 1
        outputs.append(family.text_encoder({"input_ids": ids, "attention_mask": mask}))
    assert torch.equal(*outputs)


def test_the_negative_prompt_steers_the_film(family):
    with_negative = generate(family, make_request(num_frames=1)).latents
    without = generate(family, make_request(num_frames=1, negative_prompt=None)).latents
    assert not torch.equal(with_negative, without)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_frames": 8}, r"num_frames must be 1 \+ a multiple of 4, got 8; .* is 9"),
        ({"width": 40}, r"width must be a multiple of 16, got 40; the nearest that works is 32"),
    ],
)
def test_a_film_that_cannot_be_drawn_is_refused(family, changes, message):
    with pytest.raises(RequestError, match=message):
        generate(family, make_request(**changes))


def test_a_prompt_is_never_cut(family):
    with pytest.raises(PromptTooLongError, match=r"negative_prompt must have at most 12 tokens"):
        generate(family, make_request(negative_prompt="cat " * 20))


def test_a_negative_prompt_without_guidance_is_warned_of(family):
    result = generate(family, make_request(guidance_scale=1.0, num_frames=1))
    assert result.warnings == ("negative_prompt has no effect: guidance_scale <= 1",)


@pytest.mark.parametrize("group_size", [1, 2])
def test_eager_programs_draw_the_same_bytes_as_the_modules(folder, family, tmp_path, group_size):
    library = ProgramLibrary(store=ArtifactStore(tmp_path), backend=make_backend("eager"))
    programs = load_wan_programs(
        read_checkpoint(folder),
        library,
        precision="float32",
        device=torch.device("cpu"),
        group_size=group_size,
    )
    actual, expected = (generate(one, make_request()) for one in (programs, family))
    assert torch.equal(actual.latents, expected.latents)
    assert [i.tobytes() for i in actual.images] == [i.tobytes() for i in expected.images]


def test_films_of_every_length_share_the_decoders_programs(folder, family, tmp_path):
    library = ProgramLibrary(store=ArtifactStore(tmp_path), backend=make_backend("eager"))
    programs = load_wan_programs(
        read_checkpoint(folder), library, precision="float32", device=torch.device("cpu")
    )
    for num_latent_frames in (1, 2, 4):
        latents = torch.randn(1, 4, num_latent_frames, 4, 6)
        expected = family.decoder({"latents": latents})
        assert torch.equal(programs.decoder({"latents": latents}), expected)
    assert len(programs.decoder._programs) == 1


def test_only_float32_runs_on_programs(folder, tmp_path):
    library = ProgramLibrary(store=ArtifactStore(tmp_path), backend=make_backend("eager"))
    with pytest.raises(UnsupportedError, match=r"dtype must be float32 for Wan 2.1 on programs"):
        load_wan_programs(
            read_checkpoint(folder), library, precision="w8a8", device=torch.device("cpu")
        )


@pytest.mark.parametrize("on_programs", [False, True])
def test_what_stands_in_the_padding_of_the_text_changes_no_bit(
    folder, family, tmp_path, on_programs
):
    component = family.text_encoder
    if on_programs:
        library = ProgramLibrary(store=ArtifactStore(tmp_path), backend=make_backend("eager"))
        component = load_wan_programs(
            read_checkpoint(folder), library, precision="float32", device=torch.device("cpu")
        ).text_encoder
    valid = torch.arange(MAX_SEQUENCE_LENGTH) < 5
    ids = torch.where(valid, torch.arange(3, 3 + MAX_SEQUENCE_LENGTH), 0)
    generator = torch.Generator().manual_seed(0)
    outputs = []
    for _ in range(3):
        noise = torch.randint(0, 19, (MAX_SEQUENCE_LENGTH,), generator=generator)
        filled = torch.where(valid, ids, noise)[None]
        outputs.append(component({"input_ids": filled, "attention_mask": valid.long()[None]}))
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])
    assert torch.equal(outputs[0][:, 5:], torch.zeros_like(outputs[0][:, 5:]))


@pytest.mark.parametrize("filler", ["1e4", "noise"])
def test_padding_of_any_size_never_enters_the_texts_attention(folder, filler):
    family = load_family(read_checkpoint(folder), dtype=torch.float32, device=torch.device("cpu"))
    tokens = family._tokenize("prompt", PROMPT)
    before = family.text_encoder(tokens)
    embedding = family.text_encoder.module.text_encoder.get_input_embeddings()
    row = embedding.weight.data[0]  # that of the padding token
    row.copy_(torch.full_like(row, 1e4) if filler == "1e4" else torch.randn(row.shape))
    assert torch.equal(family.text_encoder(tokens), before)
