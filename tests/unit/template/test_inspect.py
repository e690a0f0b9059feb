"""What `inspect` finds in a template, on one small enough to know."""

import numpy as np
import pytest
from PIL import Image

from intonaco.errors import ManifestError
from intonaco.quality.template_plots import draw_importance
from intonaco.template.catalog import Catalog
from intonaco.template.inspect import (
    StoredImportance,
    inspect_template,
    measure_parts,
    read_importance,
    sampled,
    spread_rows,
)
from intonaco.template.manifest import file_record
from tests.support.templates import readable_packed

PACKED = readable_packed()


@pytest.fixture
def template(tmp_path):
    return Catalog(tmp_path).add(PACKED.manifest, PACKED.contents)


def test_the_parts_of_a_template_add_up_to_its_files(template):
    parts = measure_parts(template)
    assert sum(sum(sizes) for sizes in parts.values()) == template.manifest.state_bytes


def test_more_bytes_never_make_the_state_worse(template):
    frontier = inspect_template(template).numbers["frontier"]
    assert len(frontier["num_bytes"]) > 2
    for name in ("num_bytes", "key_snr_db", "value_snr_db"):
        assert frontier[name] == sorted(frontier[name])


def test_the_importance_of_rows_lies_on_the_tokens_that_stay():
    tokens_YX = np.array([[True, False], [False, False]])
    stored = StoredImportance(num_requests=1, skew=None, overlap=None, rows=(1.0, 2.0, 3.0))
    spread_YX = spread_rows(stored, tokens_YX)
    assert np.isnan(spread_YX[0, 0])
    assert spread_YX[~tokens_YX].tolist() == [1.0, 2.0, 3.0]


def test_the_most_important_token_is_tinted_most_and_edited_ones_are_not():
    picture = Image.new("RGB", (32, 16), (100, 100, 100))
    drawn = np.asarray(draw_importance(picture, np.array([[np.nan, 1.0]]))).astype(int)
    redness = drawn[..., 0] - drawn[..., 1]
    assert (redness[:, :16] == 0).all()
    assert (redness[:, 16:] > 50).all()


def test_importance_of_another_number_of_rows_is_refused(tmp_path):
    content = b'{"num_requests":1,"skew":0.5,"overlap":null,"rows":[1.0]}'
    record = file_record("importance", content, "json")
    manifest = PACKED.manifest.model_copy(update={"importance": record})
    contents = {**PACKED.contents, record.name: content}
    wanted = {one.name for one in manifest.files()}
    made = {name: value for name, value in contents.items() if name in wanted}
    with pytest.raises(ManifestError, match="must hold 12 rows, got 1"):
        read_importance(Catalog(tmp_path).add(manifest, made))


def test_a_sample_keeps_both_ends_and_what_is_few_is_taken_whole():
    assert sampled(5, 8) == [0, 1, 2, 3, 4]
    assert (sampled(100, 4)[0], sampled(100, 4)[-1], len(sampled(100, 4))) == (0, 99, 4)
