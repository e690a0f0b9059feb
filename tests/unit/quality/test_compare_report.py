"""The report of a comparison: what the files hold."""

import json

import pytest
from PIL import Image

from intonaco.errors import SaveError
from intonaco.quality.compare_report import CompareRow, WorstCase, table_lines, write_report

ROW = CompareRow(
    mode="cadence:2",
    num_steps=50,
    num_calls=30.0,
    speedup=1.6,
    ceiling=1.667,
    psnr_mean_db=60.0,
    psnr_worst_db=50.0,
    ssim_mean=0.999,
    worst_prompt="a <b>doll</b> & a dog",
    psnr_gain_over_fewer_steps_db=12.5,
    share_above_fewer_steps=1.0,
)


def case(name: str, psnr_db: float) -> WorstCase:
    picture = Image.new("RGB", (32, 32), "teal")
    return WorstCase(
        mode=name, num_steps=50, prompt="a doll", psnr_db=psnr_db, image=picture, reference=picture
    )


def test_the_three_files_are_written_and_say_the_same(tmp_path):
    folder = tmp_path / "new" / "report"
    data, page, sheet = write_report(
        folder, [ROW], [case("a", 30.0)], model_name="dolls <1>", num_prompts=16
    )
    document = json.loads(data.read_text())
    assert document["rows"][0]["psnr_gain_over_fewer_steps_db"] == 12.5
    assert (document["format"], document["version"]) == ("intonaco-compare", 1)
    assert "12.5" in page.read_text()
    with Image.open(sheet) as opened:
        assert opened.width > 2 * 32


def test_prompts_and_names_are_escaped_on_the_page(tmp_path):
    _, page, _ = write_report(tmp_path, [ROW], [], model_name="dolls <1>", num_prompts=16)
    text = page.read_text()
    assert "a &lt;b&gt;doll&lt;/b&gt; &amp; a dog" in text
    assert "dolls &lt;1&gt;" in text
    assert "<b>" not in text


def test_a_mode_without_a_baseline_leaves_its_gain_empty():
    from dataclasses import replace

    lines = table_lines([ROW, replace(ROW, psnr_gain_over_fewer_steps_db=None)])
    assert lines[1].endswith("+12.5")
    assert not lines[2].endswith("12.5")
    assert len({len(line) for line in lines}) == 1


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError, match="choose a writable folder"):
        write_report(tmp_path / "file" / "report", [ROW], [], model_name="m", num_prompts=1)
