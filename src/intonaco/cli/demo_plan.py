"""What `intonaco demo` draws: read from the demo.json of a folder, checked, with its files.

    {"format": 1,
     "pictures": [{"name": "garden", "prompt": "a girl in a garden", "seed": 7}],
     "edits": [{"name": "try-on", "title": "Try on", "prompt": "a girl in a coat", "seed": 3,
                "template_picture": "garden", "mask_file": "torso.png",
                "reference_files": ["coat.png"]}]}

An edit changes a picture of the plan (`template_picture`) or a file of the folder (`template_file`).
Files are named relative to the folder and must lie in it.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from intonaco.errors import RequestError

PLAN_FILE = "demo.json"
MAX_PLAN_BYTES = 1_000_000

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\.png$")]


class DrawnPicture(BaseModel):
    """One picture to draw from words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    prompt: str
    seed: int


class DrawnEdit(BaseModel):
    """One edit of a picture that was drawn before, or of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    title: str
    prompt: str = ""
    seed: int
    template_picture: str | None = None
    template_file: FileName | None = None
    mask_file: FileName
    reference_files: tuple[FileName, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Every file of the folder that the edit reads."""
        template = (self.template_file,) if self.template_file is not None else ()
        return (*template, self.mask_file, *self.reference_files)

    @model_validator(mode="after")
    def _check_one_template(self) -> "DrawnEdit":
        if (self.template_picture is None) == (self.template_file is None):
            raise ValueError("give exactly one of template_picture and template_file")
        return self


class DemoPlan(BaseModel):
    """Everything that the demo draws, in order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1]
    pictures: tuple[DrawnPicture, ...]
    edits: tuple[DrawnEdit, ...] = ()

    @model_validator(mode="after")
    def _check_names(self) -> "DemoPlan":
        names = [item.name for item in (*self.pictures, *self.edits)]
        if len(set(names)) != len(names):
            raise ValueError(f"names must differ, got {names}")
        drawn = {picture.name for picture in self.pictures}
        for edit in self.edits:
            if edit.template_picture is not None and edit.template_picture not in drawn:
                raise ValueError(
                    f"template_picture of {edit.name} must be one of {sorted(drawn)}, "
                    f"got {edit.template_picture!r}"
                )
        return self


# What the demo draws where the folder with reference pictures is not installed: words only.
WORDS_ONLY = DemoPlan(
    format=1,
    pictures=(
        DrawnPicture(name="girl", prompt="a girl with red hair in a blue dress", seed=1),
        DrawnPicture(name="boy", prompt="a boy with a green hat", seed=2),
        DrawnPicture(name="tall-girl", prompt="a tall girl in a green dress", seed=3),
    ),
)


def read_plan(folder: Path) -> DemoPlan:
    """Return the plan in `folder`; `WORDS_ONLY` where there is none.

    Raises `RequestError` where the plan breaks a rule, or names a file that is not there.
    """
    path = folder / PLAN_FILE
    if not path.is_file():
        return WORDS_ONLY
    if path.stat().st_size > MAX_PLAN_BYTES:
        raise RequestError(f"{path} must be at most {MAX_PLAN_BYTES} bytes; shorten the plan")
    try:
        plan = DemoPlan.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "plan"
        raise RequestError(f"{path}: {place}: {first['msg']}; correct it there") from None
    for edit in plan.edits:
        for name in edit.files:
            if not (folder / name).is_file():
                raise RequestError(
                    f"{path}: edit {edit.name!r} needs {name}, which is not in {folder}; add it"
                )
    return plan
