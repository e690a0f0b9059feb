"""Where a model's folder is: the shipped one, a folder, or a hub id that is fetched."""

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from intonaco.errors import ModelNotFoundError

SHIPPED_MODEL = "paper-dolls"
# A leading folder in each pattern leaves out the single-file copies at the top of a repository.
HUB_FILES = (
    "model_index.json",
    "intonaco.json",
    "step-cache.json",
    "*/*.json",
    "*/*.safetensors",
    "*/*.txt",
    "*/*.jinja",
)
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def shipped_folder() -> Path:
    """Return the folder of the model that travels with the package."""
    return Path(str(files("intonaco"))) / "assets" / SHIPPED_MODEL


def fetch_from_hub(hub_id: str) -> str:
    """Return the folder of `hub_id`, fetched where it is not here yet."""
    return huggingface_hub.snapshot_download(hub_id, allow_patterns=list(HUB_FILES))


def find_folder(source: str | Path | None, *, fetch: Callable[[str], str] = fetch_from_hub) -> Path:
    """Return the folder of `source`: None = shipped, an existing folder, or a hub id (owner/name).

    A hub id whose files are here already needs no network. Raises ModelNotFoundError.
    """
    if source is None:
        return shipped_folder()
    folder = Path(source)
    if folder.exists() or not _HUB_ID.fullmatch(str(source)) or str(source).startswith("."):
        return folder
    try:
        return Path(fetch(str(source)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ModelNotFoundError(
            f"model {source} is no folder here and cannot be had from the hub ({reason}); check the "
            "name and the network, or pass the path of a downloaded folder"
        ) from None
