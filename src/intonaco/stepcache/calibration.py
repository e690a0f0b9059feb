"""The calibration file: what was measured of one model, and the settings that it offers.

One small JSON file beside the model. A runtime value: changing it, or the offer that is taken from
it, compiles nothing. Knows nothing of how the numbers were made.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from intonaco.errors import CalibrationError, RequestError
from intonaco.stepcache.policies import Curve
from intonaco.stepcache.settings import Offered, StepCacheSettings

FILE_NAME = "step-cache.json"
VERSION = 1
MAX_FILE_BYTES = 1 << 20


class Signal(BaseModel):
    """How well the probe's score predicts the output's change, and which mode that speaks for.

    Attributes:
        r2_fit, r2_held_out: of the curve, on the prompts it was fitted on and on others.
        pearson: correlation of score and change.
        autocorrelation: of the change from one step to the next, lag 1.
        gated_mode: what the two correlations choose.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    r2_fit: FiniteFloat
    r2_held_out: FiniteFloat
    pearson: FiniteFloat
    autocorrelation: FiniteFloat
    gated_mode: Literal["adaptive", "online-delta", "cadence"]
    curve: Curve


class Offer(BaseModel):
    """Settings, and what they gave on the calibration prompts beside fewer steps at equal calls.

    Attributes:
        psnr_p5_db: what 95 % of the prompts reach at least.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    settings: StepCacheSettings
    num_steps: int
    num_calls: FiniteFloat
    ceiling: FiniteFloat
    psnr_mean_db: FiniteFloat
    psnr_worst_db: FiniteFloat
    psnr_p5_db: FiniteFloat
    fewer_steps_psnr_mean_db: FiniteFloat
    share_above_fewer_steps: FiniteFloat


class Calibration(BaseModel):
    """All of a calibration file.

    Attributes:
        chosen: the offer that `calibrated` means where no name is given; None = no mode was better
            than fewer steps.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["intonaco-step-cache"] = "intonaco-step-cache"
    version: Literal[1] = VERSION
    model_name: str
    model_digest: str
    num_prompts: int
    num_steps: int
    signal: Signal | None
    offers: tuple[Offer, ...]
    chosen: str | None
    requested: str = ""
    notes: tuple[str, ...] = Field(default=())

    @property
    def digest(self) -> str:
        """sha256 of the file's text."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"

    def settings(self, choice: Offered) -> StepCacheSettings:
        """Return the settings of an offer. Raises RequestError where there is no such offer."""
        name = choice.offer or self.chosen
        found = {offer.name: offer for offer in self.offers}
        if name is None or name not in found:
            known = ", ".join(found) or "none: no mode was better than fewer steps"
            raise RequestError(
                f"step cache calibrated:{name or ''} is not offered for {self.model_name}; offered "
                f"are {known}"
            )
        return choice.override(found[name].settings)


def read_calibration(path: Path, *, model_digest: str | None = None) -> Calibration:
    """Return the calibration in `path`, checked against the model where its digest is given.

    Raises CalibrationError: it is missing, damaged, of another version or of another model.
    """
    remedy = "write one with: intonaco calibrate"
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CalibrationError(
            f"calibration file {path} cannot be read ({error.strerror}); {remedy}"
        ) from None
    if len(text) > MAX_FILE_BYTES:
        raise CalibrationError(
            f"calibration file {path} has over {MAX_FILE_BYTES} bytes; it is none: {remedy}"
        )
    try:
        calibration = Calibration.model_validate_json(text)
    except (ValidationError, RequestError) as error:
        reason = " ".join(str(error).split())[:160]
        raise CalibrationError(
            f"calibration file {path} is damaged or of another version than {VERSION} ({reason}); "
            f"{remedy}"
        ) from None
    if model_digest is not None and calibration.model_digest != model_digest:
        raise CalibrationError(
            f"calibration file {path} is of {calibration.model_name} "
            f"{calibration.model_digest[:12]}, the model is {model_digest[:12]}; {remedy}"
        )
    return calibration
