"""What this machine can do, what is missing, and how to get it. Only looks; changes nothing."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from intonaco.errors import IntonacoError

MIN_MEMORY_GIB = 2.0
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what was looked at.
        is_ok: whether it is there and can be used.
        is_needed: whether pictures can be drawn without it.
        value: what was found, in words.
        remedy: what to do where it is not ok.
    """

    name: str
    is_ok: bool
    value: str
    is_needed: bool = False
    remedy: str = ""


def examine(model_folder: str | None) -> tuple[Finding, ...]:
    """Return every finding about this machine, and about the model in `model_folder`."""
    checks: tuple[Callable[[], Finding], ...] = (
        find_python,
        find_processor,
        find_memory,
        find_torch,
        find_compiler,
        find_cuda,
        find_openvino,
        find_video,
        find_plots,
        find_store,
        lambda: find_model(model_folder),
    )
    return tuple(check() for check in checks)


def find_python() -> Finding:
    """The interpreter."""
    return Finding(
        name="python",
        is_ok=sys.version_info >= (3, 11),
        value=f"{platform.python_version()} at {sys.executable}",
        is_needed=True,
        remedy="install Python 3.11 or newer",
    )


def find_processor() -> Finding:
    """Cores that this process may use, and the vector instructions that compiled code may use."""
    if hasattr(os, "sched_getaffinity"):
        num_cores = len(os.sched_getaffinity(0))
    else:
        num_cores = os.cpu_count() or 1
    name = _processor_name(Path("/proc/cpuinfo"))
    return Finding(name="processor", is_ok=True, value=f"{num_cores} cores, {name}")


def find_memory() -> Finding:
    """Main memory."""
    import psutil

    memory = psutil.virtual_memory()
    free_gib = memory.available / GIB
    return Finding(
        name="memory",
        is_ok=free_gib >= MIN_MEMORY_GIB,
        value=f"{free_gib:.1f} GiB free of {memory.total / GIB:.1f} GiB",
        remedy=f"have {MIN_MEMORY_GIB:.0f} GiB free: close other programs",
    )


def find_torch() -> Finding:
    """PyTorch, and the instruction set that its own kernels use here."""
    try:
        import torch
    except ImportError as error:
        return Finding(
            name="torch", is_ok=False, is_needed=True, value=str(error), remedy="run 'make setup'"
        )
    capability = torch.backends.cpu.get_cpu_capability()
    value = f"{torch.__version__}, {capability}, {torch.get_num_threads()} threads"
    return Finding(name="torch", is_ok=True, is_needed=True, value=value)


def find_compiler() -> Finding:
    """The C++ compiler that the inductor backend calls."""
    name = os.environ.get("CXX", "g++")
    path = shutil.which(name)
    if path is None:
        return Finding(
            name="c++ compiler",
            is_ok=False,
            value=f"{name} not found",
            remedy="install g++ ('apt-get install g++' on Debian or Ubuntu) to compile programs",
        )
    return Finding(name="c++ compiler", is_ok=True, value=f"{path}, {_first_line_of(path)}")


def find_cuda() -> Finding:
    """NVIDIA devices that torch can use."""
    try:
        import torch
    except ImportError:
        return Finding(name="cuda", is_ok=False, value="torch is missing", remedy="install torch")
    if not torch.cuda.is_available():
        return Finding(
            name="cuda",
            is_ok=False,
            value="no device that torch can use",
            remedy="nothing to do on a CPU; with an NVIDIA GPU, install a CUDA build of torch",
        )
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return Finding(name="cuda", is_ok=True, value=", ".join(names))


def find_openvino() -> Finding:
    """The OpenVINO backend."""
    return _find_package("openvino", extra="openvino", purpose="the openvino backend")


def find_video() -> Finding:
    """What writes MP4 files."""
    return _find_package("av", extra="video", purpose="MP4 files")


def find_plots() -> Finding:
    """What draws the plots of reports."""
    return _find_package("matplotlib", extra="quality", purpose="plots in reports")


def find_store() -> Finding:
    """The artifact store, where compiled programs are kept."""
    from intonaco.programs.store import default_store_folder

    folder = default_store_folder()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    is_ok = existing.is_dir() and os.access(existing, os.W_OK)
    free_gib = shutil.disk_usage(existing).free / GIB
    return Finding(
        name="artifact store",
        is_ok=is_ok,
        value=f"{folder}, {free_gib:.1f} GiB free" if is_ok else f"{folder} cannot be written",
        remedy="choose a folder of yours with INTONACO_STORE=FOLDER",
    )


def find_model(folder: str | None) -> Finding:
    """The model that would draw, and the digest of its weights."""
    from intonaco.model import locate_model, revision_digest

    try:
        path = locate_model(folder)
        digest = revision_digest(path)
    except IntonacoError as error:
        return Finding(
            name="model",
            is_ok=False,
            is_needed=True,
            value=str(error),
            remedy="name a folder in diffusers' format with --model FOLDER",
        )
    return Finding(name="model", is_ok=True, is_needed=True, value=f"{path}, digest {digest[:16]}")


def _find_package(name: str, *, extra: str, purpose: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        remedy = f"pip install 'intonaco[{extra}]' for {purpose}"
        return Finding(name=name, is_ok=False, value="not installed", remedy=remedy)
    return Finding(
        name=name, is_ok=True, value=f"{importlib.metadata.version(name)}, for {purpose}"
    )


def _processor_name(cpuinfo: Path) -> str:
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    fields = dict(_fields_of(lines))
    name = fields.get("model name") or platform.processor() or platform.machine()
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")
    return ", ".join([name, *(flag for flag in wanted if flag in flags)])


def _fields_of(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in reversed(lines):
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def _first_line_of(compiler: str) -> str:
    try:
        run = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    return run.stdout.partition("\n")[0]
