"""Reads a checkpoint folder in diffusers' format: what is in it, whether it is whole, its digest.

Knows no family. Files are checked before any model class sees them, so a damaged folder gives one
line that names the file, and nothing half-loaded.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open

from intonaco.errors import CheckpointError, ModelNotFoundError

if TYPE_CHECKING:
    import torch  # a process that only reads what a checkpoint says of itself does without it

INDEX_FILE = "model_index.json"
SETTINGS_FILE = "intonaco.json"
DIGESTED_SUFFIXES = frozenset({".json", ".safetensors", ".txt", ".jinja", ".model"})
_READ_BYTES = 1 << 20


class ModelSettings(BaseModel):
    """`intonaco.json`: how a checkpoint wants to be used. Every key may be left out."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: str | None = None
    description: str | None = None
    default_num_steps: int | None = Field(default=None, ge=1, le=1000)
    default_width: int | None = Field(default=None, ge=16)
    default_height: int | None = Field(default=None, ge=16)
    max_sequence_length: int | None = Field(default=None, ge=1)
    text_encoder_out_layers: list[int] | None = Field(default=None, min_length=1)
    vocabulary_check: bool = False
    vocabulary: list[str] | None = None
    references: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A folder in diffusers' format.

    Attributes:
        class_name: the pipeline class that `model_index.json` names.
        components: component name -> class name, as the index lists them; absent ones left out.
        options: the index's other settings, such as `is_distilled`.
    """

    folder: Path
    class_name: str
    components: Mapping[str, str]
    options: Mapping[str, object]
    settings: ModelSettings

    @property
    def name(self) -> str:
        return self.settings.name or self.folder.name

    def component_folder(self, component: str, class_names: tuple[str, ...]) -> Path:
        """Return the folder of `component` if the index lists it as one of `class_names`."""
        listed = self.components.get(component)
        if listed not in class_names:
            raise CheckpointError(
                f"{self.folder / INDEX_FILE} lists {component} as {listed}, needed is "
                f"{' or '.join(class_names)}; use a checkpoint of {self.class_name}"
            )
        folder = self.folder / component
        if not folder.is_dir():
            raise CheckpointError(
                f"{folder} is missing, {INDEX_FILE} lists it; copy the whole checkpoint again"
            )
        return folder


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read the index and settings of `folder`.

    Raises ModelNotFoundError if there is no such folder, CheckpointError if it is no checkpoint.
    """
    if not folder.is_dir():
        raise ModelNotFoundError(
            f"model folder {folder} does not exist; pass a folder in diffusers' format (with "
            f"{INDEX_FILE}), a hub id such as owner/name, or nothing for the shipped model"
        )
    index = read_json(folder / INDEX_FILE)
    class_name = index.get("_class_name")
    if not isinstance(class_name, str):
        raise CheckpointError(f"{folder / INDEX_FILE} names no _class_name; copy the file again")
    components: dict[str, str] = {}
    for component, entry in index.items():
        if isinstance(entry, list):
            pair = cast("list[object]", entry)
            if len(pair) == 2 and isinstance(pair[1], str):
                components[component] = pair[1]
    options = {key: value for key, value in index.items() if not isinstance(value, list)}
    return Checkpoint(
        folder=folder,
        class_name=class_name,
        components=components,
        options=options,
        settings=_read_settings(folder / SETTINGS_FILE),
    )


def check_weights(folder: Path) -> None:
    """Raise CheckpointError unless every safetensors file of a component is there and whole."""
    for index_file in sorted(folder.glob("*.safetensors.index.json")):
        weight_map = read_json(index_file).get("weight_map")
        names = set(cast("dict[str, str]", weight_map).values()) if weight_map else set[str]()
        for name in sorted(names):
            if not (folder / name).is_file():
                raise CheckpointError(
                    f"{folder / name} is missing, {index_file.name} lists it; copy it again"
                )
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(
            f"{folder} has no *.safetensors file; copy the weights again (other formats are not read)"
        )
    for file in files:
        try:
            # Opening reads the header and checks that the file holds what it lists.
            with cast("AbstractContextManager[object]", safe_open(file, framework="pt")):
                pass
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{file} is damaged or cut short ({_one_line(error)}); copy it again"
            ) from None


def load_module(folder: Path, model_class: Any, *, dtype: "torch.dtype") -> "torch.nn.Module":
    """Return `model_class` loaded from `folder`, in `dtype`, ready for inference.

    Raises CheckpointError if the configuration or any tensor is missing, damaged or misshapen.
    """
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder / 'config.json'} is missing; copy the checkpoint again")
    check_weights(folder)
    try:
        module, info = model_class.from_pretrained(
            folder, dtype=dtype, output_loading_info=True, use_safetensors=True
        )
    # The model classes raise whatever their loading code meets, so the kinds cannot be listed.
    except Exception as error:
        raise CheckpointError(
            f"{folder} cannot be loaded as {model_class.__name__} ({_one_line(error)}); copy the "
            "checkpoint again"
        ) from error
    missing = sorted(str(key) for key in info["missing_keys"])
    if missing:
        raise CheckpointError(
            f"{folder} lacks {len(missing)} tensors of {model_class.__name__}, first {missing[0]}; "
            "copy the checkpoint again"
        )
    return cast("torch.nn.Module", module).eval().requires_grad_(False)


def revision_digest(checkpoint: Checkpoint) -> str:
    """Return sha256 (hex) over names and content of the index, settings and component files.

    Equal digests mean equal weights, tokenizer, configurations and defaults; the folder's name and
    place, and files that no component reads, do not enter.
    """
    files = [checkpoint.folder / INDEX_FILE, checkpoint.folder / SETTINGS_FILE]
    for component in checkpoint.components:
        files += (checkpoint.folder / component).glob("*")
    digest = hashlib.sha256()
    for file in sorted(files):
        if file.is_file() and file.suffix in DIGESTED_SUFFIXES:
            name = file.relative_to(checkpoint.folder).as_posix()
            digest.update(f"{name}\0{_file_digest(file)}\n".encode())
    return digest.hexdigest()


def _file_digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object in `file`, or raise CheckpointError."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{file} is missing; pass a folder in diffusers' format, with {INDEX_FILE} at its top"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{file} cannot be read ({_one_line(error)}); copy it again"
        ) from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{file} holds no JSON object; copy it again")
    return cast("dict[str, Any]", content)


def _read_settings(file: Path) -> ModelSettings:
    if not file.is_file():
        return ModelSettings()
    try:
        return ModelSettings.model_validate(read_json(file))
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(str(part) for part in first["loc"])
        raise CheckpointError(
            f"{file}: {setting}: {first['msg']}; known settings are "
            f"{', '.join(ModelSettings.model_fields)}"
        ) from None


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
