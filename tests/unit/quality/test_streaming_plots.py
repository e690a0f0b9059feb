"""The plots of streamed edits are written, whole or not at all."""

import pytest
from PIL import Image

from intonaco.errors import SaveError
from intonaco.quality.streaming_plots import MethodEdits, save_streaming_plots

EDITS = MethodEdits(
    latencies_s=[2.4, 2.5, 9.0],
    psnr_db=[50.0, 40.0, None],
    num_bytes=[1_000_000, 2_000_000, 0],
    violations=0.01,
    stall_share=0.02,
)
METHODS = {"ours": EDITS, "intq": EDITS, "rectangle": EDITS}
OVER_TIME = ([0.0, 1.0, 2.0], [100.0, 5.0, 80.0], {"ours": [2.4, 2.5, 2.4]})


def save(folder):
    return save_streaming_plots(
        folder,
        OVER_TIME,
        {"5g": METHODS, "lte": METHODS},
        compared=("ours", "intq"),
        ablations=("rectangle",),
    )


def test_every_plot_is_a_picture_with_something_on_it(tmp_path):
    for path in save(tmp_path / "plots"):
        with Image.open(path) as picture:
            assert len(picture.convert("RGB").getcolors(maxcolors=1 << 20)) > 10


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "plots").write_text("a file")
    with pytest.raises(SaveError, match="plots"):
        save(tmp_path / "plots")
