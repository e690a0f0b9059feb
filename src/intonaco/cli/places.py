"""Where intonaco keeps files of its own on this machine."""

import os
from pathlib import Path

STORE_VARIABLE = "INTONACO_STORE"


def artifact_store_folder() -> Path:
    """Return the folder of the artifact store: INTONACO_STORE, or one in the user's cache folder."""
    chosen = os.environ.get(STORE_VARIABLE)
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "intonaco" / "artifacts"
