"""The change probe against the denoiser's own first features, eager and as a program."""

import pytest
import torch

from intonaco.backends.eager import EagerBackend
from intonaco.backends.spec import TensorSpec
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2 import position_ids
from intonaco.families.registry import load_family
from intonaco.pipelines.probes import make_change_probe
from intonaco.programs.builders import module_builder
from intonaco.programs.presharding import Header, module_tensors
from intonaco.stepcache import wan_probe
from intonaco.stepcache.flux2_probe import Flux2Features, probe_spec
from intonaco.stepcache.probe import EagerProbe
from intonaco.stepcache.wan_probe import WanFeatures
from tests.support.comparison import assert_close

NUM_IMAGE_TOKENS, NUM_TEXT_TOKENS = 16, 24
ROUNDING = "the same float32 operations in another grouping"


@pytest.fixture(scope="module")
def family(tiny_flux2_folder):
    checkpoint = read_checkpoint(tiny_flux2_folder)
    return load_family(checkpoint, dtype=torch.float32, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def transformer(family):
    return family.denoiser.module.transformer


def inputs_at(time: float, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "hidden_states": torch.randn(1, NUM_IMAGE_TOKENS, 32, generator=generator),
        "timestep": torch.tensor([time]),
        "encoder_hidden_states": torch.randn(1, NUM_TEXT_TOKENS, 96, generator=generator),
        "img_ids": position_ids(rows=4, columns=4),
        "txt_ids": position_ids(text=NUM_TEXT_TOKENS),
    }


def header_of(tensors: dict[str, torch.Tensor]) -> Header:
    return Header(
        {
            name: TensorSpec(name=name, shape=tuple(tensor.shape), dtype="float32", role="weight")
            for name, tensor in tensors.items()
        }
    )


def test_the_features_are_what_the_first_attention_reads(family, transformer):
    seen = []
    handle = transformer.transformer_blocks[0].attn.register_forward_pre_hook(
        lambda _module, _args, named: seen.append(named["hidden_states"]), with_kwargs=True
    )
    inputs = inputs_at(0.7, 0)
    try:
        family.denoiser(inputs)
    finally:
        handle.remove()
    with torch.no_grad():
        features = Flux2Features(transformer)(**inputs)
    assert_close(features, seen[0], atol=1e-6, why=ROUNDING)


def test_the_score_is_the_mean_change_over_the_mean_size(transformer):
    probe, features = EagerProbe(Flux2Features(transformer)), Flux2Features(transformer)
    first, second = inputs_at(0.7, 0), inputs_at(0.5, 1)
    probe(first)
    score = probe(second)
    with torch.no_grad():
        old, new = features(**first), features(**second)
    assert_close(
        score, ((new - old).abs().mean() / old.abs().mean()).reshape(1, 1), atol=1e-6, why=ROUNDING
    )


def test_the_first_score_is_undefined_and_reset_makes_it_so_again(transformer):
    probe = EagerProbe(Flux2Features(transformer))
    assert probe(inputs_at(0.7, 0)).isnan()
    assert not probe(inputs_at(0.5, 1)).isnan()
    probe.reset()
    assert probe(inputs_at(0.7, 0)).isnan()


def test_features_of_another_size_are_not_compared(transformer):
    probe = EagerProbe(Flux2Features(transformer))
    probe(inputs_at(0.7, 0))
    smaller = inputs_at(0.5, 1)
    smaller["hidden_states"] = smaller["hidden_states"][:, :9]
    assert probe(smaller).isnan()


def test_text_does_not_reach_the_probe(transformer):
    probe = EagerProbe(Flux2Features(transformer))
    first = inputs_at(0.7, 0)
    probe(first)
    changed = {**first, "encoder_hidden_states": first["encoder_hidden_states"] + 1}
    assert probe(changed).item() == 0.0


def test_the_probe_program_scores_as_the_eager_probe_does(transformer):
    tensors, _ = module_tensors(transformer)
    header = header_of(tensors)
    config = dict(transformer.config)
    spec = probe_spec(config, header, num_image_tokens=NUM_IMAGE_TOKENS, precision="float32")
    program = EagerBackend().load(spec, module_builder(spec), None)
    program.bind({f"features.{name}": tensor for name, tensor in tensors.items()})
    program.reset()
    eager = EagerProbe(Flux2Features(transformer))
    for step, time in enumerate((0.9, 0.7, 0.4)):
        inputs = inputs_at(time, step)
        (score,) = program(inputs["hidden_states"], inputs["timestep"])
        expected = eager(inputs)
        if step:
            assert_close(score, expected, atol=1e-6, why=ROUNDING)


def test_the_probe_binds_the_weights_of_the_prefix_only(transformer):
    tensors, _ = module_tensors(transformer)
    header = header_of(tensors)
    spec = probe_spec(dict(transformer.config), header, num_image_tokens=16, precision="float32")
    bound = {item.name.split(".")[1] for item in spec.bound}
    assert bound == {"x_embedder", "time_guidance_embed", "double_stream_modulation_img"}


def test_a_family_without_a_probe_says_so(family):
    class Unprobed:
        name = "another"

    assert make_change_probe(Unprobed()) is None


@pytest.fixture(scope="module")
def wan_family(tmp_path_factory):
    from tests.support.tiny_wan import build_tiny_wan

    checkpoint = read_checkpoint(build_tiny_wan(tmp_path_factory.mktemp("wan"), scheduler="euler"))
    return load_family(checkpoint, dtype=torch.float32, device=torch.device("cpu"))


def wan_inputs(family, time: float, seed: int) -> dict[str, torch.Tensor]:
    transformer = family.denoiser.module.transformer
    generator = torch.Generator().manual_seed(seed)
    channels, text_dim = transformer.config["in_channels"], transformer.config["text_dim"]
    return {
        "hidden_states": torch.randn(1, channels, 2, 4, 4, generator=generator),
        "timestep": torch.tensor([time]),
        "encoder_hidden_states": torch.randn(1, 12, text_dim, generator=generator),
    }


def test_the_features_of_wan_are_what_its_first_attention_reads(wan_family):
    transformer = wan_family.denoiser.module.transformer
    seen = []
    handle = transformer.blocks[0].attn1.register_forward_pre_hook(
        lambda _module, args: seen.append(args[0])
    )
    inputs = wan_inputs(wan_family, 700.0, 0)
    try:
        wan_family.denoiser(inputs)
    finally:
        handle.remove()
    with torch.no_grad():
        features = WanFeatures(transformer)(**inputs)
    assert_close(features, seen[0], atol=1e-5, why=ROUNDING)


def test_the_probe_program_of_wan_scores_as_the_eager_probe_does(wan_family):
    transformer = wan_family.denoiser.module.transformer
    tensors, _ = module_tensors(transformer)
    shape = tuple(wan_inputs(wan_family, 0.0, 0)["hidden_states"].shape)
    spec = wan_probe.probe_spec(dict(transformer.config), header_of(tensors), latent_shape=shape)
    program = EagerBackend().load(spec, module_builder(spec), None)
    program.bind({wan_probe.probe_name(name): tensor for name, tensor in tensors.items()})
    program.reset()
    eager = EagerProbe(WanFeatures(transformer))
    for step, time in enumerate((900.0, 700.0, 400.0)):
        inputs = wan_inputs(wan_family, time, step)
        (score,) = program(inputs["hidden_states"], inputs["timestep"])
        expected = eager(inputs)
        if step:
            assert_close(score, expected, atol=1e-5, why=ROUNDING)
