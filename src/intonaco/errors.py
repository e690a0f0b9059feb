"""Every error that intonaco raises on purpose, in one tree.

    IntonacoError
    ├── InputError                  what the caller asked for cannot be done
    │   ├── RequestError            a setting of a request breaks a rule
    │   ├── PictureError            a picture, mask or reference cannot be used
    │   └── PromptTooLongError      the prompt has more tokens than the model reads
    ├── ModelError                  a model cannot be used
    │   ├── ModelNotFoundError      no such folder, and no such model on the hub
    │   ├── CheckpointError         a checkpoint is incomplete, damaged or of another class
    │   └── UnsupportedError        the model, device or precision is not one that works here
    ├── ReceiptError                a picture carries no receipt, or one that cannot be read
    │   └── ReplayError             a receipt that cannot be drawn again here, and why
    ├── SaveError                   a file cannot be written; nothing half-written is left
    └── GenerationCancelled         the caller stopped a generation; not a fault

Layers above and below add their own branches under `IntonacoError`. Each message is one line: the
setting, its value, the rule, and what would work.
"""


class IntonacoError(Exception):
    """The root: catching it catches all that intonaco raises on purpose."""


class InputError(IntonacoError):
    """What the caller asked for cannot be done."""


class RequestError(InputError):
    """A setting of a request breaks a rule."""


class PictureError(InputError):
    """A picture, mask or reference cannot be used."""


class PromptTooLongError(InputError):
    """The prompt has more tokens than the model reads."""


class ModelError(IntonacoError):
    """A model cannot be used."""


class ModelNotFoundError(ModelError):
    """There is no such folder, and no such model on the hub."""


class CheckpointError(ModelError):
    """A checkpoint is incomplete, damaged or of another class."""


class UnsupportedError(ModelError):
    """The model, device or precision is not one that works here."""


class ReceiptError(IntonacoError):
    """A picture carries no receipt, or one that cannot be read."""


class ReplayError(ReceiptError):
    """A receipt cannot be drawn again here; the message says which field stands in the way."""


class SaveError(IntonacoError):
    """A file cannot be written; nothing half-written is left."""


class GenerationCancelled(IntonacoError):  # noqa: N818  a decision of the caller, not a fault
    """The caller stopped a generation."""
