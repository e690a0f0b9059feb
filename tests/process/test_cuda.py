"""On a GPU, the same pictures as on the host; with `pytest -m device`, where there is one.

Written without a GPU at hand. The tolerance comes from the host: the shipped model's float32 picture is
at most 1 of 255 from its float64 picture, so two float32 pictures are at most 2 apart.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from intonaco.device.cuda_copies import CudaCopies
from intonaco.device.edit import TemplateSession
from intonaco.device.link import TemplateLink
from intonaco.device.upload import CudaUpload
from intonaco.model import load
from intonaco.template.loading import load_template
from tests.support.catalog_servers import own_server
from tests.support.comparison import assert_close
from tests.support.studio import SMALL_FILES, build_studio, complete

pytestmark = pytest.mark.device

WORDS = "a tall girl in a blue dress"
WHY = (
    "float32 sums in another order in every layer and step, each 1 of 255 from the float64 picture"
)


@pytest.fixture
def cuda(monkeypatch) -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA build of torch and a GPU")
    # Off for products by default, on for convolutions: 10 bits of mantissa, which would be compared.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    return torch.device("cuda", 0)


@pytest.fixture(scope="module")
def studio(tiny_flux2_folder, tmp_path_factory):
    return build_studio(load(tiny_flux2_folder), tmp_path_factory.mktemp("catalog"))


@pytest.fixture(scope="module")
def url(studio) -> Iterator[str]:
    with own_server(studio.catalog) as server:
        yield f"{server}/{studio.folder}"


def test_the_shipped_model_draws_the_same_picture(cuda):
    request = {"prompt": "a doll with glasses", "seed": 7}
    here, there = (load(device=name).generate(**request) for name in ("cpu", str(cuda)))
    assert_close(there.image, here.image, atol=2, why=WHY)


def test_a_streamed_edit_draws_what_a_local_one_draws_on_the_host(cuda, studio, url):
    state = load_template(studio.template)
    here = studio.model.edit(state.picture, studio.mask_HW, template_state=state, prompt=WORDS)
    there = load(studio.model.checkpoint.folder, device=str(cuda))
    with TemplateLink(url) as link:
        edited = complete(TemplateSession(there, link, settings=SMALL_FILES), prompt=WORDS)
    assert edited.stream.flag == "complete"
    assert_close(edited.picture.image, here.image, atol=2, why=WHY)


def test_a_streamed_edit_keeps_the_templates_own_pixels(cuda, studio, url):
    there = load(studio.model.checkpoint.folder, device=str(cuda))
    with TemplateLink(url) as link:
        edited = TemplateSession(there, link).edit(prompt=WORDS)
    template = np.asarray(load_template(studio.template).picture)
    outside = ~studio.mask_HW
    assert (np.asarray(edited.picture.image)[outside] == template[outside]).all()


class Unlockable(CudaCopies):
    """As where page-locking is refused."""

    def lock(self, memory, /) -> bool:
        return False


@pytest.mark.parametrize("copies", [CudaCopies, Unlockable])
def test_work_launched_after_taking_a_shard_reads_its_numbers(cuda, copies):
    memory = torch.zeros(2, 1024, 1024)
    upload = CudaUpload(copies(cuda), memory.view(-1))
    sums = []
    for value in range(1, 51):
        upload.wait_sent()
        memory.fill_(value)
        key, value_rows = upload.take(upload.send({0: (memory[0], memory[1])}))[0]
        sums.append(key.sum() - value_rows.sum() + key[0, 0])
    upload.wait_run()
    upload.close()
    assert [float(one) for one in sums] == [float(value) for value in range(1, 51)]


def test_page_locking_is_had_and_given_back(cuda):
    memory = torch.zeros(1 << 22, dtype=torch.uint8)
    copies = CudaCopies(cuda)
    assert copies.lock(memory)
    assert memory.is_pinned()
    copies.unlock(memory)
    assert not memory.is_pinned()


def test_a_refused_lock_leaves_no_error_behind(cuda):
    memory = torch.zeros(1 << 22, dtype=torch.uint8)
    copies = CudaCopies(cuda)
    assert copies.lock(memory)
    assert not copies.lock(memory)
    # The next kernel would be blamed for it.
    assert float(torch.ones(8, device=cuda).sum()) == 8.0
    copies.unlock(memory)


def test_a_copy_runs_beside_the_models_stream(cuda):
    memory = torch.zeros(64 << 20, dtype=torch.uint8)
    upload = CudaUpload(CudaCopies(cuda), memory)
    rows = memory.view(torch.float32)
    factor = torch.ones(4096, 4096, device=cuda)
    # Once for the memory: asking CUDA for more of it may wait for the whole device.
    upload.send({0: (rows, rows)})
    upload.wait_sent()
    upload.wait_run()
    for _ in range(50):
        factor = factor @ factor * 0.0 + 1.0
    began = torch.cuda.current_stream(cuda).record_event()
    upload.send({0: (rows, rows)})
    upload.wait_sent()
    # The copy has ended while the model's work, launched before it, has not.
    assert not began.query()
    upload.wait_run()
    upload.close()
