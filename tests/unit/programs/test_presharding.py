"""Presharded weights: whole or refused, the same bytes each time, and mapped rather than copied."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from intonaco.errors import ArtifactDamagedError
from intonaco.programs.presharding import (
    map_tensors,
    module_tensors,
    read_header,
    write_presharded,
)

TENSORS = {
    "proj.weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "proj.bias": torch.arange(3, dtype=torch.bfloat16),
    "table": torch.arange(5),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "denoiser.safetensors"
    write_presharded(path, TENSORS, derived={"table"})
    return path


def test_what_is_mapped_is_what_was_written(path):
    mapped = map_tensors(path)
    assert mapped.keys() == TENSORS.keys()
    assert all(torch.equal(mapped[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("length", range(1, 70, 7))
def test_data_start_where_aligned_loads_may_read(tmp_path, length):
    path = tmp_path / "denoiser.safetensors"
    write_presharded(path, {"w" * length: torch.arange(4)}, derived=())
    (tensor,) = map_tensors(path).values()
    assert tensor.data_ptr() % 64 == 0


def test_the_header_says_shape_dtype_and_role(path):
    found = {
        name: (item.shape, item.dtype, item.role)
        for name, item in read_header(path).tensors.items()
    }
    assert found == {
        "proj.weight": ((3, 4), "float32", "weight"),
        "proj.bias": ((3,), "bfloat16", "weight"),
        "table": ((5,), "int64", "derived"),
    }


def test_tensors_under_a_prefix_come_in_the_order_of_their_names(path):
    names = [item.name for item in read_header(path).under("proj.")]
    assert names == ["proj.bias", "proj.weight"]


def test_equal_tensors_give_equal_bytes_and_no_file_beside_them(path):
    before = path.read_bytes()
    write_presharded(path, dict(reversed(TENSORS.items())), derived=["table"])
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_tied_weights_are_written_once_under_each_name(tmp_path):
    shared = torch.ones(4)
    write_presharded(tmp_path / "a", {"first": shared, "second": shared}, derived=())
    assert map_tensors(tmp_path / "a").keys() == {"first", "second"}


def test_buffers_that_a_module_does_not_save_are_derived():
    module = nn.Linear(2, 2)
    module.register_buffer("table", torch.ones(2), persistent=False)
    tensors, derived = module_tensors(module)
    assert (set(tensors), derived) == ({"weight", "bias", "table"}, {"table"})


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def claim_a_long_header(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 1 << 62) + path.read_bytes()[8:])


def cut_the_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def name_an_unknown_dtype(path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"0")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (cut, "bytes, its header says"),
        (lengthen, "bytes, its header says"),
        (claim_a_long_header, "its header claims 4611686018427387904 bytes"),
        (cut_the_header, "its header cannot be read"),
        (empty, "its header cannot be read"),
        (remove, "its header cannot be read"),
        (name_an_unknown_dtype, "its header cannot be read"),
    ],
)
def test_a_damaged_file_is_refused_before_it_is_mapped(path, harm, reason):
    harm(path)
    with pytest.raises(ArtifactDamagedError, match=reason) as caught:
        map_tensors(path)
    assert "remove the file, it is written again" in str(caught.value)


MAP_AND_MEASURE = """
import sys
from pathlib import Path
import torch
from intonaco.programs.presharding import map_tensors

def dirty() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * int(next(l for l in lines if l.startswith("Private_Dirty:")).split()[1])

before = dirty()
tensors = map_tensors(Path(sys.argv[1]))
total = sum(float(tensor.sum()) for tensor in tensors.values())
print(dirty() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").is_file(), reason="needs Linux's /proc")
def test_mapped_weights_stay_the_files_own_pages(tmp_path):
    path = tmp_path / "large.safetensors"
    write_presharded(path, {"weight": torch.ones(16 << 20)}, derived=())
    result = subprocess.run(
        [sys.executable, "-c", MAP_AND_MEASURE, path], capture_output=True, text=True, check=True
    )
    # 64 MiB were read; a copy would have made all of them dirty.
    assert int(result.stdout) < 32 << 20
