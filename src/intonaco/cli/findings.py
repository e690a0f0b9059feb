"""What this machine can do, what is missing, and how to get it. Only looks; changes nothing."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from intonaco.backends.machine import num_cores
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
        find_bfloat16,
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
    """Cores that this process may use, and the processor's name."""
    name = _processor_fields().get("model name") or platform.processor() or platform.machine()
    return Finding(name="processor", is_ok=True, value=f"{num_cores()} cores, {name}")


def find_bfloat16() -> Finding:
    """Whether the processor computes in bfloat16 itself."""
    fields = _processor_fields()
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    found = [flag for flag in ("amx_bf16", "avx512_bf16", "bf16") if flag in flags]
    return Finding(
        name="bfloat16",
        is_ok=bool(found),
        value=f"in the processor: {', '.join(found)}" if found else "emulated by this processor",
        remedy="nothing to do: --dtype float32, the default, suits this processor better",
    )


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


def find_model(source: str | None) -> Finding:
    """The model that would draw, and the digest of its files. Downloads nothing."""
    from intonaco.families.checkpoint import read_checkpoint, revision_digest
    from intonaco.families.source import shipped_folder

    folder = shipped_folder() if source is None else Path(source)
    try:
        checkpoint = read_checkpoint(folder)
        digest = revision_digest(checkpoint)
    except IntonacoError as error:
        return Finding(
            name="model",
            is_ok=False,
            is_needed=True,
            value=str(error),
            remedy="name a folder in diffusers' format with --model FOLDER",
        )
    value = f"{checkpoint.name}, {checkpoint.class_name}, digest {digest[:16]}, in {folder}"
    return Finding(name="model", is_ok=True, is_needed=True, value=value)


def _find_package(name: str, *, extra: str, purpose: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        remedy = f"pip install 'intonaco[{extra}]' for {purpose}"
        return Finding(name=name, is_ok=False, value="not installed", remedy=remedy)
    return Finding(
        name=name, is_ok=True, value=f"{importlib.metadata.version(name)}, for {purpose}"
    )


def _processor_fields(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """Return what Linux says of the first core; nothing on other systems."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    pairs = (line.partition(":") for line in reversed(lines))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _first_line_of(compiler: str) -> str:
    try:
        run = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    return run.stdout.partition("\n")[0]
