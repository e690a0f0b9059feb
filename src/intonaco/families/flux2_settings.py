"""What a FLUX.2 klein checkpoint says of itself: folders, host configuration, defaults.

Reads JSON only, and imports no model class: a process that draws on stored programs starts here.
"""

from pathlib import Path

from intonaco.errors import CheckpointError
from intonaco.families.base import Defaults
from intonaco.families.checkpoint import Checkpoint, read_json
from intonaco.families.flux2 import Flux2Config

KLEIN_DEFAULTS = Defaults(width=1024, height=1024, num_steps=4)
KLEIN_MAX_SEQUENCE_LENGTH = 512
KLEIN_OUT_LAYERS = (9, 18, 27)
COMPONENT_CLASSES = {
    "tokenizer": ("Qwen2Tokenizer", "Qwen2TokenizerFast"),
    "scheduler": ("FlowMatchEulerDiscreteScheduler",),
    "text_encoder": ("Qwen3ForCausalLM",),
    "transformer": ("Flux2Transformer2DModel",),
    "vae": ("AutoencoderKLFlux2",),
}


def flux2_config(checkpoint: Checkpoint) -> Flux2Config:
    """Return what the host needs to know of `checkpoint` besides its components."""
    folders = component_folders(checkpoint)
    num_halvings = len(read_json(folders["vae"] / "config.json")["block_out_channels"]) - 1
    return Flux2Config(
        token_channels=read_json(folders["transformer"] / "config.json")["in_channels"],
        token_pixels=2 * 2**num_halvings,
        is_distilled=bool(checkpoint.options.get("is_distilled", False)),
        checks_vocabulary=checkpoint.settings.vocabulary_check,
    )


def flux2_defaults(checkpoint: Checkpoint) -> Defaults:
    """Return what a request gets where it leaves a setting out."""
    settings = checkpoint.settings
    return Defaults(
        width=settings.default_width or KLEIN_DEFAULTS.width,
        height=settings.default_height or KLEIN_DEFAULTS.height,
        num_steps=settings.default_num_steps or KLEIN_DEFAULTS.num_steps,
    )


def max_sequence_length(checkpoint: Checkpoint) -> int:
    """Return T, the padded prompt length."""
    return checkpoint.settings.max_sequence_length or KLEIN_MAX_SEQUENCE_LENGTH


def out_layers(checkpoint: Checkpoint) -> tuple[int, ...]:
    """Return the layers of the text model that the transformer reads, in order."""
    folders = component_folders(checkpoint)
    layers = tuple(checkpoint.settings.text_encoder_out_layers or KLEIN_OUT_LAYERS)
    text_settings = read_json(folders["text_encoder"] / "config.json")
    num_layers, hidden = text_settings["num_hidden_layers"], text_settings["hidden_size"]
    width = read_json(folders["transformer"] / "config.json")["joint_attention_dim"]
    if max(layers) > num_layers or min(layers) < 0 or len(layers) * hidden != width:
        raise CheckpointError(
            f"text_encoder_out_layers {list(layers)} do not fit {checkpoint.folder}: the text "
            f"model has layers 0..{num_layers} of width {hidden}, the transformer reads {width}; "
            f"set {width // hidden} layers in intonaco.json"
        )
    return layers


def component_folders(checkpoint: Checkpoint) -> dict[str, Path]:
    """Return the folder of each component, or raise CheckpointError."""
    return {
        name: checkpoint.component_folder(name, class_names)
        for name, class_names in COMPONENT_CLASSES.items()
    }
