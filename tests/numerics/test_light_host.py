"""The host parts that replace library imports at start give exactly what the libraries give."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from transformers import Qwen2Tokenizer

from intonaco.errors import CheckpointError
from intonaco.families.euler import PlainEuler, is_plain
from intonaco.families.light_tokenizer import read_light_tokenizer
from intonaco.families.prompt import ChatTokenizer

PROMPTS = ("a tall girl with red hair", "", "  An Élève's 3rd\that — blue!! ", "🎨 photo of dress")


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_light_tokenizer_gives_the_ids_of_the_full_one(tiny_flux2_folder, prompt):
    folder = tiny_flux2_folder / "tokenizer"
    light, full = (
        ChatTokenizer(tokenizer, max_sequence_length=40)
        for tokenizer in (read_light_tokenizer(folder), Qwen2Tokenizer.from_pretrained(folder))
    )
    actual, expected = light.tokenize(prompt), full.tokenize(prompt)
    assert all(torch.equal(actual[name], expected[name]) for name in expected)
    assert light.unknown_words(prompt) == full.unknown_words(prompt)


def test_a_tokenizer_folder_without_its_file_is_refused(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"cannot be loaded as a tokenizer .*copy it again"):
        read_light_tokenizer(tmp_path)


@pytest.mark.parametrize("num_steps", [1, 4, 8, 30])
@pytest.mark.parametrize(
    "settings", [{"shift": 3.0}, {"shift": 1.0}, {"use_dynamic_shifting": True}]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_plain_sampler_takes_the_steps_of_diffusers(num_steps, settings, dtype):
    sigmas, mu = np.linspace(1.0, 1 / num_steps, num_steps), 1.7
    reference = FlowMatchEulerDiscreteScheduler(**settings)
    reference.set_timesteps(sigmas=sigmas, mu=mu)
    reference.set_begin_index(0)
    plain = PlainEuler(dict(reference.config), sigmas=sigmas, mu=mu, device=torch.device("cpu"))
    assert torch.equal(plain.timesteps, reference.timesteps)
    assert torch.equal(plain.sigmas, reference.sigmas)
    generator = torch.Generator().manual_seed(0)
    samples = [torch.randn(1, 6, 4, generator=generator).to(dtype)] * 2
    for timestep in reference.timesteps:
        prediction = torch.randn(1, 6, 4, generator=generator).to(dtype)
        samples = [
            scheduler.step(prediction, timestep, sample, return_dict=False)[0]
            for scheduler, sample in zip((plain, reference), samples, strict=True)
        ]
        assert torch.equal(*samples)


@pytest.mark.parametrize(
    "setting", [{"use_karras_sigmas": True}, {"shift_terminal": 0.1}, {"time_shift_type": "linear"}]
)
def test_unusual_settings_are_left_to_diffusers(setting):
    assert not is_plain({**FlowMatchEulerDiscreteScheduler().config, **setting})


def test_the_program_path_imports_no_model_class():
    code = (
        "import sys, intonaco.model, intonaco.families.flux2_programs;"
        "print([name for name in ('diffusers', 'transformers', 'scipy', 'sympy')"
        " if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
