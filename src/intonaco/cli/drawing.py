"""What `generate`, `edit`, `replay` and `demo` share: load a model, check the output, save, report."""

import io
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from intonaco.cli.terminal import PictureProgress, Terminal
from intonaco.errors import SaveError

if TYPE_CHECKING:
    from PIL.Image import Image

    from intonaco.model import Model
    from intonaco.pipelines.picture import Picture
    from intonaco.programs.compiler import CompileEvent


def load_model(
    progress: PictureProgress,
    *,
    folder: str | None,
    dtype: str = "float32",
    device: str = "cpu",
    backend: str = "eager",
) -> "Model":
    """Return the model in `folder` (None: the built-in one); programs say when they are compiled."""
    import intonaco

    def show(event: "CompileEvent") -> None:
        progress.say(f"{event.phase} {event.component}, {event.index + 1} of {event.num_programs}")

    return intonaco.load(folder, dtype=dtype, device=device, backend=backend, compile_progress=show)


def check_output(path: Path | None) -> None:
    """Raise `SaveError` where `path` cannot become a PNG: before the work, not after it."""
    if path is not None and path.suffix.lower() != ".png":
        raise SaveError(
            f"--output must end in .png, got {str(path)!r}; for example --output {path.stem}.png"
        )
    if path is not None and path.is_dir():
        raise SaveError(f"--output must be a file, {str(path)!r} is a folder; add a name")
    check_folder(path.parent if path is not None else Path())


def check_folder(folder: Path) -> None:
    """Raise `SaveError` unless a file can be made in `folder`."""
    if not folder.is_dir():
        raise SaveError(
            f"--output must lie in an existing folder, {str(folder)!r} is none; "
            f"create it with 'mkdir -p {folder}'"
        )
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SaveError(
            f"--output must lie in a folder that can be written, {str(folder)!r} cannot be: "
            f"{error.strerror}; choose another with --output"
        ) from error


def check_catalog(folder: Path) -> None:
    """Raise `SaveError` unless `folder` can be written, or be made where it is not there yet."""
    path = folder.absolute()
    check_folder(next(one for one in (path, *path.parents) if one.exists()))


def finish(
    terminal: Terminal,
    picture: "Picture",
    *,
    output: Path | None,
    writes_receipt: bool,
    replay_words: Sequence[str] | None = (),
    extra: Mapping[str, object] | None = None,
) -> None:
    """Save `picture`, print where it is and how to draw it again.

    `replay_words` are the words that `intonaco replay` needs besides the picture; None where it
    cannot be drawn again. `extra` joins the fields for a machine.
    """
    path = output or Path(f"picture-{picture.receipt.seed}.png")
    for warning in picture.warnings:
        terminal.warn(warning)
    picture.save(path, receipt_beside=writes_receipt)
    terminal.say(describe(picture, path))
    if replay_words is not None:
        words = shlex.join(["intonaco", "replay", str(path), *replay_words])
        terminal.say(f"the same pixels again: {words}")
    terminal.result({**as_json(picture, path), **(extra or {})})


def replay_words(
    *,
    model: str | None,
    references: Sequence[Path],
    prompt_if_private: str | None = None,
    template: Path | None = None,
    mask: Path | None = None,
) -> list[str]:
    """Return the options without which a picture's receipt cannot be drawn again."""
    given = {
        "--model": [model],
        "--template": [template],
        "--mask": [mask],
        "--reference": references,
        "--prompt": [prompt_if_private],
    }
    return [
        word
        for option, values in given.items()
        for value in values
        if value is not None
        for word in (option, str(value))
    ]


def describe(picture: "Picture", path: Path) -> str:
    """Return what was drawn, in one line for a person."""
    receipt = picture.receipt
    seconds = sum(receipt.step_ms) / 1000
    return (
        f"{path}: {receipt.width}x{receipt.height}, seed {receipt.seed}, "
        f"{receipt.num_steps} steps in {seconds:.2f} s"
    )


def as_json(picture: "Picture", path: Path) -> dict[str, object]:
    """Return what was drawn, as fields for a machine."""
    return {
        "picture": str(path),
        "warnings": list(picture.warnings),
        "receipt": picture.receipt.model_dump(mode="json"),
    }


def save_png(image: "Image", path: Path) -> None:
    """Write `image` whole or not at all. Raises `SaveError`."""
    from intonaco.pipelines.picture import write_files

    encoded = io.BytesIO()
    image.save(encoded, format="PNG")
    write_files({path: encoded.getvalue()})
