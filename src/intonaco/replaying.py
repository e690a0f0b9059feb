"""Draws a picture again from its receipt, to the same pixels, or says which field stands in the way."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from intonaco.errors import ReplayError
from intonaco.model import Model, PictureSource, load, open_mask, open_references
from intonaco.pipelines.caching import repeat_step_cache
from intonaco.pipelines.generate import ProgressCallback
from intonaco.pipelines.picture import Picture
from intonaco.pipelines.reading import open_picture, picture_digest
from intonaco.pipelines.receipt import EditRecord, Receipt, TemplateRecord, read_receipt
from intonaco.pipelines.record import differences
from intonaco.template.capture import TemplateState


def replay(
    path: str | Path,
    model: Model | str | Path | None = None,
    *,
    prompt: str | None = None,
    references: Sequence[PictureSource] = (),
    template: PictureSource | None = None,
    mask: PictureSource | NDArray[np.bool_] | None = None,
    template_state: TemplateState | None = None,
    progress: ProgressCallback | None = None,
) -> Picture:
    """Draw the picture in `path` again from its receipt, to the same pixels.

    Args:
        path: a PNG that intonaco saved.
        model: the model that drew it, or where it is; None = the shipped one.
        prompt: needed where the receipt is private.
        references, template, mask: the pictures it was drawn from, where there were any.
        template_state: where it was an edit of a prepared template, the same state.

    Raises:
        ReceiptError: there is no receipt that can be read.
        ReplayError: it cannot be drawn again; the message names the field in the way.
    """
    receipt = read_receipt(path)
    if receipt.is_private and prompt is None:
        raise ReplayError(f"prompt: the receipt of {path} is private; pass the prompt")
    pictures = open_references(references)
    _check_references(receipt, pictures)
    loaded = _replay_model(receipt, model)
    shared: dict[str, Any] = {
        "prompt": prompt if receipt.prompt is None else receipt.prompt,
        "seed": receipt.seed,
        "num_steps": receipt.num_steps,
        "references": pictures,
        "guidance_scale": receipt.guidance_scale,
        "negative_prompt": receipt.negative_prompt,
        "image_index": receipt.image_index,
        "is_private": receipt.is_private,
        "step_cache": repeat_step_cache(receipt.step_cache),
        "progress": progress,
    }
    if receipt.edit is None:
        shared |= {
            "width": receipt.width,
            "height": receipt.height,
            "num_frames": receipt.num_frames,
        }
        picture = loaded.generate(**shared)
    else:
        _check_template_state(receipt.edit.template, template_state)
        shared["template_state"] = template_state
        picture = _replay_edit(loaded, receipt.edit, template, mask, shared)
    if picture.receipt.picture_sha256 != receipt.picture_sha256:
        raise ReplayError(
            f"picture_sha256: drew other pixels than {path} records; what differs here: "
            f"{differences(receipt, picture.receipt)}"
        )
    return picture


def _check_references(receipt: Receipt, references: tuple[Image.Image, ...]) -> None:
    wanted, got = list(receipt.references_sha256), [picture_digest(one) for one in references]
    if len(wanted) != len(got):
        raise ReplayError(
            f"references_sha256: drawn with {len(wanted)} references, got {len(got)}; pass those "
            "pictures in the same order"
        )
    for index, (digest, given) in enumerate(zip(wanted, got, strict=True)):
        if digest != given:
            raise ReplayError(
                f"references_sha256: references[{index}] is another picture than it was drawn with "
                f"({given[:12]}, recorded {digest[:12]}); pass the same one"
            )


def _replay_model(receipt: Receipt, model: Model | str | Path | None) -> Model:
    if not isinstance(model, Model):
        model = load(model, dtype=receipt.dtype, device=receipt.device, backend=receipt.backend)
    if model.digest != receipt.model_digest:
        raise ReplayError(
            f"model_digest: drawn with {receipt.model_name} {receipt.model_digest[:12]}, got "
            f"{model.name} {model.digest[:12]}; pass the model that drew it"
        )
    fields = {"dtype": model.dtype, "device": model.device, "backend": model.backend}
    for field, given in fields.items():
        recorded = getattr(receipt, field)
        if recorded != given:
            raise ReplayError(
                f"{field}: drawn with {recorded}, the model is loaded with {given}; load it with "
                f"{field}={recorded!r}"
            )
    return model


def _replay_edit(
    model: Model,
    record: EditRecord,
    template: PictureSource | None,
    mask: PictureSource | NDArray[np.bool_] | None,
    shared: dict[str, Any],
) -> Picture:
    if template is None or mask is None:
        missing = "template" if template is None else "mask"
        raise ReplayError(f"{missing}: the picture is an edit; pass the {missing} it started from")
    source = open_picture(template, "template").convert("RGB")
    mask_HW = open_mask(mask, size=source.size)
    given = {"template": source, "mask": Image.fromarray(mask_HW)}
    for name, picture in given.items():
        recorded = getattr(record, f"{name}_sha256")
        if picture_digest(picture) != recorded:
            raise ReplayError(
                f"{name}_sha256: another {name} than it was drawn with ({recorded[:12]} recorded); "
                "pass the same one"
            )
    return model.edit(
        source,
        mask_HW,
        feather_pixels=record.feather_pixels,
        has_source_reference=record.has_source_reference,
        **shared,
    )


def _check_template_state(record: TemplateRecord | None, state: TemplateState | None) -> None:
    if record is None:
        if state is not None:
            raise ReplayError(
                "template_state: drawn without a prepared template; leave template_state out"
            )
        return
    if state is None:
        raise ReplayError(
            f"template_state: drawn on the prepared template {record.template_id[:12]}; pass its state"
        )
    given = {"template_id": state.identity.digest, "num_bytes": state.num_bytes}
    for field, value in given.items():
        if getattr(record, field) != value:
            raise ReplayError(
                f"{field}: drawn on a prepared template with {field} {getattr(record, field)}, got "
                f"{value}; pass the same state"
            )
