"""Draw, edit and replay pictures with diffusion transformers.

    import intonaco
    model = intonaco.load()
    model.generate("a doll with ginger hair", seed=7).save("doll.png")

Names are imported when first used, so `import intonaco` loads neither torch nor a model class.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from intonaco.version import __version__

if TYPE_CHECKING:
    from intonaco.errors import (
        CheckpointError,
        GenerationCancelled,
        InputError,
        IntonacoError,
        ModelError,
        ModelNotFoundError,
        PictureError,
        PromptTooLongError,
        ReceiptError,
        ReplayError,
        RequestError,
        SaveError,
        UnsupportedError,
    )
    from intonaco.model import Model, load
    from intonaco.pipelines.generate import StepEvent
    from intonaco.pipelines.picture import Picture
    from intonaco.pipelines.receipt import Receipt, read_receipt
    from intonaco.replaying import replay

_HOME_OF = {
    "CheckpointError": "intonaco.errors",
    "GenerationCancelled": "intonaco.errors",
    "InputError": "intonaco.errors",
    "IntonacoError": "intonaco.errors",
    "Model": "intonaco.model",
    "ModelError": "intonaco.errors",
    "ModelNotFoundError": "intonaco.errors",
    "Picture": "intonaco.pipelines.picture",
    "PictureError": "intonaco.errors",
    "PromptTooLongError": "intonaco.errors",
    "Receipt": "intonaco.pipelines.receipt",
    "ReceiptError": "intonaco.errors",
    "ReplayError": "intonaco.errors",
    "RequestError": "intonaco.errors",
    "SaveError": "intonaco.errors",
    "StepEvent": "intonaco.pipelines.generate",
    "UnsupportedError": "intonaco.errors",
    "load": "intonaco.model",
    "read_receipt": "intonaco.pipelines.receipt",
    "replay": "intonaco.replaying",
}

__all__ = [
    "CheckpointError",
    "GenerationCancelled",
    "InputError",
    "IntonacoError",
    "Model",
    "ModelError",
    "ModelNotFoundError",
    "Picture",
    "PictureError",
    "PromptTooLongError",
    "Receipt",
    "ReceiptError",
    "ReplayError",
    "RequestError",
    "SaveError",
    "StepEvent",
    "UnsupportedError",
    "__version__",
    "load",
    "read_receipt",
    "replay",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'intonaco' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
