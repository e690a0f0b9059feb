"""Every error that intonaco raises on purpose, in one tree.

    IntonacoError
    ├── InputError                  what the caller asked for cannot be done
    │   ├── RequestError            a setting of a request breaks a rule
    │   │   └── FieldError          the same, of a request over HTTP
    │   ├── PictureError            a picture, mask or reference cannot be used
    │   └── PromptTooLongError      the prompt has more tokens than the model reads
    ├── ModelError                  a model cannot be used
    │   ├── ModelNotFoundError      no such folder, and no such model on the hub
    │   ├── CheckpointError         a checkpoint is incomplete, damaged or of another class
    │   └── UnsupportedError        the model, device or precision is not one that works here
    ├── ReceiptError                a picture carries no receipt, or one that cannot be read
    │   └── ReplayError             a receipt that cannot be drawn again here, and why
    ├── SaveError                   a file cannot be written; nothing half-written is left
    ├── ProgramError                a program cannot be keyed, bound or called
    │   ├── ProgramKeyError         a source that the program's digest needs cannot be found
    │   ├── ProgramBindError        a constant is missing, unbound or of the wrong kind
    │   ├── ProgramCallError        an input is missing, no tensor, or of the wrong kind
    │   └── ProgramStateError       a program with state was called before reset
    ├── BackendError                a backend cannot serve a program
    │   ├── BackendUnavailableError the backend, or its compiler, is not installed here
    │   ├── UnsupportedProgramError the backend cannot compile such a program; all reasons
    │   └── CompileError            the compiler failed, or was killed
    ├── ArtifactError               an artifact or a presharded weights file cannot be used
    │   ├── ArtifactMissingError    no such artifact in the store, and compiling is not allowed
    │   ├── ArtifactDamagedError    a file of the artifact is truncated or altered
    │   └── FingerprintError        the artifact was compiled for another machine; which fields
    ├── StepCacheError              a step cache was used in a way that would draw a wrong picture
    │   └── CalibrationError        a calibration file is missing, damaged or of another model
    ├── TemplateError               a template's state cannot be built, stored, read or used
    │   ├── TemplateIdentityError   state is used with another model, size or picture; which field
    │   ├── TemplateMissingError    no such catalog, template or file of one
    │   ├── StateGoneError          the rest of a state will not come; a run that can goes on dense
    │   ├── ManifestError           a manifest is no JSON of this version, or contradicts itself
    │   └── PackError               a file of a template's state cannot be read
    │       ├── PackFormatError     not such a file, or of a version that is not read here
    │       ├── PackBoundsError     a length or a count is larger than the format or the file allows
    │       └── PackDamagedError    bytes were altered or are missing; a checksum differs
    ├── StreamingError              template state cannot be streamed as asked
    │   ├── StreamSettingsError     a setting, table or level of the stream controller breaks a rule
    │   ├── TraceError              a bandwidth trace is missing, damaged or cannot be synthesized
    │   └── StoreError              a store of templates cannot be used
    │       ├── StoreLostError      no connection, or nothing arrived over it in time; worth a retry
    │       ├── StoreTrustError     an https server is not who it should be, or speaks no TLS
    │       ├── StoreAnswerError    the store answered what was not asked for, or has no such file
    │       └── StoreChangedError   a file of the store is another one than before
    ├── ServingError                a server cannot start, or cannot do what a client asked
    │   ├── ProfileError            a serving profile breaks a rule; the message names the field
    │   ├── MessageError            what came between the two processes is no message of theirs
    │   ├── QueueFullError          too many pictures wait already
    │   ├── NotReadyError           no model process serves now, and why
    │   ├── DeadlineError           a request took longer than it was given
    │   └── ModelProcessError       the model process died, hung or raised, or cannot start or end
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


class FieldError(RequestError):
    """A field of a request breaks a rule; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


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


class ProgramError(IntonacoError):
    """A program cannot be keyed, bound or called."""


class ProgramKeyError(ProgramError):
    """A source that the program's digest needs cannot be found."""


class ProgramBindError(ProgramError):
    """A constant is missing, unbound or of the wrong kind; the message names it."""


class ProgramCallError(ProgramError):
    """An input or output is missing, no tensor, or of the wrong kind; the message names it."""


class ProgramStateError(ProgramError):
    """A program with state was called before `reset`."""


class BackendError(IntonacoError):
    """A backend cannot serve a program."""


class BackendUnavailableError(BackendError):
    """The backend, or its compiler, is not installed on this machine."""


class UnsupportedProgramError(BackendError):
    """The backend cannot compile such a program; the message gives every reason."""


class CompileError(BackendError):
    """The compiler failed or was killed."""


class ArtifactError(IntonacoError):
    """An artifact or a presharded weights file cannot be used."""


class ArtifactMissingError(ArtifactError):
    """The store holds no such artifact, and compiling is not allowed."""


class ArtifactDamagedError(ArtifactError):
    """A file of the artifact is truncated or altered."""


class FingerprintError(ArtifactError):
    """The artifact was compiled for another machine; the message names the fields that differ."""


class StepCacheError(IntonacoError):
    """A step cache was used in a way that would draw a wrong picture."""


class CalibrationError(StepCacheError):
    """A calibration file is missing, damaged, of another version or of another model."""


class TemplateError(IntonacoError):
    """A template's state cannot be built, stored, read or used."""


class TemplateIdentityError(TemplateError):
    """State is used where it does not belong; the message names the field that differs."""


class TemplateMissingError(TemplateError):
    """There is no such catalog, no such template, or a file of it is missing."""


class StateGoneError(TemplateError):
    """The rest of a template's state will not come; steps that compute every token still can run."""


class ManifestError(TemplateError):
    """A manifest is no JSON of this version, holds unknown fields, or contradicts itself."""


class PackError(TemplateError):
    """A file of a template's state cannot be read."""


class PackFormatError(PackError):
    """The file is not of this kind, or of a version that is not read here."""


class PackBoundsError(PackError):
    """A length or a count is larger than the format or the file allows."""


class PackDamagedError(PackError):
    """Bytes were altered or are missing: a checksum differs."""


class StreamingError(IntonacoError):
    """Template state cannot be streamed as asked."""


class StreamSettingsError(StreamingError):
    """A setting, a table or a level of the stream controller breaks a rule."""


class TraceError(StreamingError):
    """A bandwidth trace is missing, damaged, or cannot be synthesized as asked."""


class StoreError(StreamingError):
    """A store of templates cannot be used."""


class StoreLostError(StoreError):
    """No connection can be had, or nothing arrived over it in time; trying again may help."""


class StoreTrustError(StoreError):
    """An https server is not who it should be, or speaks no TLS; trying again does not help."""


class StoreAnswerError(StoreError):
    """The store answered what was not asked for, or has no such file."""


class StoreChangedError(StoreError):
    """A file of the store is another one than before; what was fetched of it is dropped."""


class ServingError(IntonacoError):
    """A server cannot start, or cannot do what a client asked."""


class ProfileError(ServingError):
    """A serving profile breaks a rule; the message names the field."""


class MessageError(ServingError):
    """What came between the API process and the model process is no message of theirs."""


class QueueFullError(ServingError):
    """Too many pictures wait already; `retry_after_s` says when to ask again."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotReadyError(ServingError):
    """No model process serves now; `retry_after_s` says when to ask again."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineError(ServingError):
    """A request took longer than it was given; what was begun was stopped."""


class ModelProcessError(ServingError):
    """The model process died, hung or raised, or it cannot be started or ended."""


class GenerationCancelled(IntonacoError):  # noqa: N818  a decision of the caller, not a fault
    """The caller stopped a generation."""
