"""A damaged checkpoint is one line that names the file and the remedy, and nothing half-loaded."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from intonaco.errors import CheckpointError, IntonacoError, ModelNotFoundError, UnsupportedError
from intonaco.families.checkpoint import read_checkpoint, revision_digest
from intonaco.model import load


@pytest.fixture
def folder(tiny_flux2_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_flux2_folder, tmp_path / "model"))


def edit_json(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def drop_tensor(file: Path, word: str) -> None:
    tensors = load_file(file)
    name = next(name for name in tensors if word in name)
    save_file({other: tensors[other] for other in tensors if other != name}, file)


WEIGHTS = "diffusion_pytorch_model.safetensors"
FAULTS = {
    "no index": (lambda f: (f / "model_index.json").unlink(), "model_index.json is missing"),
    "index no json": (
        lambda f: (f / "model_index.json").write_text("{"),
        "model_index.json cannot be read",
    ),
    "index no object": (lambda f: (f / "model_index.json").write_text("[]"), "no JSON object"),
    "index without class": (
        lambda f: (f / "model_index.json").write_text("{}"),
        "names no _class_name",
    ),
    "component missing": (lambda f: shutil.rmtree(f / "vae"), "vae is missing"),
    "component of another class": (
        lambda f: edit_json(f / "model_index.json", vae=["diffusers", "AutoencoderKL"]),
        "lists vae as AutoencoderKL, needed is AutoencoderKLFlux2",
    ),
    "no configuration": (
        lambda f: (f / "transformer/config.json").unlink(),
        "config.json is missing",
    ),
    "no weights": (lambda f: (f / "vae" / WEIGHTS).unlink(), "no \\*.safetensors file"),
    "weights cut short": (
        lambda f: cut(f / "transformer" / WEIGHTS),
        "safetensors is damaged or cut short",
    ),
    "text weights cut short": (
        lambda f: cut(f / "text_encoder/model.safetensors"),
        "safetensors is damaged or cut short",
    ),
    "tensor missing": (
        lambda f: drop_tensor(f / "transformer" / WEIGHTS, "proj_out"),
        "lacks 1 tensors of Flux2Transformer2DModel, first proj_out.weight",
    ),
    "text tensor missing": (
        lambda f: drop_tensor(f / "text_encoder/model.safetensors", "layers.1.mlp.up_proj"),
        "lacks 1 tensors of Qwen3ForCausalLM",
    ),
    "tensor of another shape": (
        lambda f: edit_json(f / "transformer/config.json", in_channels=64),
        "cannot be loaded as Flux2Transformer2DModel",
    ),
    "shard missing": (
        lambda f: (f / "vae/x.safetensors.index.json").write_text(
            '{"weight_map": {"a": "x-2.safetensors"}}'
        ),
        "x-2.safetensors is missing",
    ),
    "tokenizer damaged": (
        lambda f: cut(f / "tokenizer/tokenizer.json"),
        "cannot be loaded as Qwen2Tokenizer",
    ),
    "unknown setting": (
        lambda f: edit_json(f / "intonaco.json", defualt_width=64),
        "defualt_width: .* known settings are name",
    ),
    "layers that do not fit": (
        lambda f: edit_json(f / "intonaco.json", text_encoder_out_layers=[1, 2]),
        "text_encoder_out_layers \\[1, 2\\] do not fit .* set 3 layers",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_checkpoint_is_named_in_one_line(folder: Path, fault: str):
    damage, message = FAULTS[fault]
    damage(folder)

    with pytest.raises(CheckpointError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_that_does_not_exist_is_no_model(tmp_path: Path):
    with pytest.raises(ModelNotFoundError, match="does not exist; pass a folder"):
        load(tmp_path / "absent")


def test_a_pipeline_without_an_adapter_is_unsupported(folder: Path):
    edit_json(folder / "model_index.json", _class_name="StableDiffusionPipeline")

    with pytest.raises(UnsupportedError, match="StableDiffusionPipeline, which has no adapter"):
        load(folder)


@pytest.mark.parametrize(
    "wrong", [{"dtype": "float16"}, {"device": "no-such-device"}, {"device": "cuda:99"}]
)
def test_a_precision_or_device_that_does_not_work_is_unsupported(folder: Path, wrong: dict):
    with pytest.raises(UnsupportedError):
        load(folder, **wrong)


def test_a_folder_without_settings_gets_kleins_defaults(folder: Path):
    (folder / "intonaco.json").unlink()
    settings = read_checkpoint(folder).settings

    assert settings.default_width is None
    # Layers 9, 18, 27 do not exist in three layers: refused, not truncated.
    with pytest.raises(IntonacoError, match=r"text_encoder_out_layers \[9, 18, 27\] do not fit"):
        load(folder)


def test_the_digest_follows_content_and_not_the_folder(folder: Path, tiny_flux2_folder: Path):
    original = revision_digest(read_checkpoint(tiny_flux2_folder))
    (folder / "README.md").write_text("no component reads this")

    assert revision_digest(read_checkpoint(folder)) == original

    file = folder / "vae" / WEIGHTS
    tensors = load_file(file)
    tensors["bn.running_mean"] = tensors["bn.running_mean"] + torch.ones(())
    save_file(tensors, file)
    assert revision_digest(read_checkpoint(folder)) != original
