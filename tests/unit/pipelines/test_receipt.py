from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from intonaco.errors import ReceiptError
from intonaco.pipelines.picture import Picture
from intonaco.pipelines.receipt import (
    EditRecord,
    Environment,
    Receipt,
    TemplateRecord,
    read_receipt,
)
from intonaco.pipelines.record import differences

RECEIPT = Receipt(
    kind="edit",
    model_name="tiny",
    model_digest="a" * 64,
    family="flux2",
    dtype="float32",
    device="cpu",
    is_private=False,
    prompt='größe "quoted"\nsecond line 画',
    seed=2**63 - 1,
    width=8,
    height=8,
    num_steps=2,
    sigmas=(1.0, 0.3, 0.0),
    step_ms=(1.5, 2.5),
    references_sha256=("b" * 64,),
    edit=EditRecord(
        template_sha256="c" * 64, mask_sha256="d" * 64, feather_pixels=6, has_source_reference=True
    ),
    picture_sha256="e" * 64,
    environment=Environment(versions={"torch": "2.13.0"}, cpu_capability="AVX2", num_threads=1),
    warnings=("word 'zebra' is not in the vocabulary",),
)


def save(path: Path, **text: str) -> Path:
    information = PngImagePlugin.PngInfo()
    for key, value in text.items():
        information.add_text(key, value)
    Image.new("RGB", (8, 8)).save(path, pnginfo=information)
    return path


def test_a_receipt_comes_back_from_the_png_field_by_field(tmp_path: Path):
    path = tmp_path / "a.png"
    Picture(image=Image.new("RGB", (8, 8)), receipt=RECEIPT).save(path)

    assert read_receipt(path) == RECEIPT


def test_where_nothing_recorded_differs_a_state_that_streamed_in_is_named_for_edits_on_templates():
    template = TemplateRecord(template_id="f" * 64, state="coded", num_bytes=9)
    on_template = RECEIPT.edit.model_copy(update={"template": template})
    assert "streamed in" not in differences(RECEIPT, RECEIPT)
    edited = RECEIPT.model_copy(update={"edit": on_template})
    assert "(a template's state that streamed in, another" in differences(edited, edited)


def test_a_receipt_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        RECEIPT.seed = 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "text: Invalid JSON"),
        ("[]", "receipt cannot be read"),
        ("{}", "kind: Field required"),
        ("[" * 100_000, "receipt cannot be read"),
        (RECEIPT.to_json().replace('"schema_version": 1', '"schema_version": 2'), "schema_version"),
        (RECEIPT.to_json().replace('"seed": ', '"seed": 1.5e400, "x": '), "seed"),
        (RECEIPT.to_json().replace('"seed": ', '"seed": "7", "x": '), "seed"),
        (RECEIPT.to_json().replace('"width": 8', '"width": 8, "surprise": 1'), "surprise"),
        ("x" * ((1 << 20) + 1), "at most 1048576 characters"),
    ],
)
def test_a_text_that_is_no_receipt_of_this_version_is_refused(
    tmp_path: Path, text: str, message: str
):
    with pytest.raises(ReceiptError, match=message) as caught:
        read_receipt(save(tmp_path / "a.png", intonaco=text))
    assert "\n" not in str(caught.value)


def test_a_png_without_a_receipt_says_so(tmp_path: Path):
    with pytest.raises(ReceiptError, match="carries no receipt"):
        read_receipt(save(tmp_path / "a.png", Title="hello"))


def test_what_is_no_png_has_no_receipt(tmp_path: Path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg")

    with pytest.raises(ReceiptError, match="is not a picture in PNG"):
        read_receipt(tmp_path / "a.jpg")
    with pytest.raises(ReceiptError, match="does not exist"):
        read_receipt(tmp_path / "absent.png")


def test_reading_a_receipt_does_not_need_the_pixels(tmp_path: Path):
    path = tmp_path / "a.png"
    Picture(image=Image.effect_noise((64, 64), 90).convert("RGB"), receipt=RECEIPT).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"IDAT") + 40])

    assert read_receipt(path) == RECEIPT
