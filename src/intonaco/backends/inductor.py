"""The ahead-of-time backend: torch.export, then AOTInductor, for CPU and CUDA.

A program holds code only. Weights stay outside: `bind` hands over pointers, so a memory-mapped file
is used where it lies and shared between processes. Two traps of the loader are closed here and in
`CheckedProgram`: it accepts wrong shapes silently, and it crashes when called unbound.

A call holds Python's global lock from start to end; see docs/programs.md.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from intonaco.backends.base import (
    Availability,
    CheckedProgram,
    ModuleBuilder,
    Program,
    check_declared,
    example_inputs,
)
from intonaco.backends.machine import instruction_set
from intonaco.backends.spec import Precision, ProgramSpec
from intonaco.errors import ArtifactDamagedError

ALIGNMENT_BYTES = 64
PACKAGE_NAME = "program.pt2"

# Weights are bound at load. By default the code would carry the number of threads that the compiling
# process happened to have, and the values of constants of up to 8 numbers: those of memory that was
# never written, as programs are compiled without weights.
OPTIONS: dict[str, Any] = {
    "always_keep_tensor_constants": True,
    "aot_inductor.package_constants_in_so": False,
    "cpp.dynamic_threads": True,
}


class InductorBackend:
    """Compiles with AOTInductor. Needs a C++ compiler to compile, and none to load."""

    name = "inductor"
    is_compiled = True

    def probe(self) -> Availability:
        """Return available: torch brings the loader."""
        return Availability(is_available=True)

    def probe_compiler(self) -> Availability:
        """Say whether a C++ compiler is on the path."""
        if compiler_path() is not None:
            return Availability(is_available=True)
        return Availability(
            is_available=False,
            reason="no C++ compiler (g++ or $CXX) on the path",
            remedy="install one (apt-get install g++), or copy a store that was compiled elsewhere",
        )

    def fingerprint(self) -> Mapping[str, str]:
        """Return what compiled code depends on; `compiler` is empty where there is none."""
        fields = {
            "backend": self.name,
            "torch": torch.__version__,
            "instruction_set": instruction_set(),
            "platform": f"{platform.system()}-{platform.machine()}".lower(),
            "compiler": self._compiler_version,
            "options": " ".join(f"{name}={value}" for name, value in sorted(OPTIONS.items())),
        }
        if torch.cuda.is_available():
            major, minor = torch.cuda.get_device_capability()
            fields["cuda"] = f"{torch.version.cuda} sm_{major}{minor}"
        return fields

    @cached_property
    def _compiler_version(self) -> str:
        return compiler_version()

    def supports(self, spec: ProgramSpec) -> tuple[str, ...]:
        """Return every reason why `spec` cannot be compiled here."""
        reasons: list[str] = []
        if spec.device == "cuda" and not torch.cuda.is_available():
            reasons.append("device='cuda' needs a CUDA build of torch and a GPU; choose 'cpu'")
        if not spec.outputs:
            reasons.append("a program needs at least one output")
        return tuple(reasons)

    def supports_precision(self, precision: Precision) -> tuple[str, ...]:
        """Return nothing: torch computes in every precision."""
        return ()

    def compile(self, spec: ProgramSpec, build: ModuleBuilder, folder: Path) -> None:
        """Write `program.pt2`. Memory of the weights is reserved but never touched.

        Raises `CompileError` when the module cannot be exported, or when it has a constant that the
        spec does not declare.
        """
        compiler: Any = importlib.import_module("torch._inductor")
        module = build().to_empty(device=spec.device)
        with torch.no_grad():
            exported = torch.export.export(module, example_inputs(spec), strict=False)
        check_declared(spec, (*exported.state_dict, *exported.constants))
        compiler.aoti_compile_and_package(
            exported, package_path=str(folder / PACKAGE_NAME), inductor_configs=OPTIONS
        )

    def load(self, spec: ProgramSpec, build: ModuleBuilder, folder: Path) -> Program:
        """Return the unbound program in `folder`. Raises `ArtifactDamagedError`."""
        # The compiled code reads this at its first call: a second net under our own checks.
        os.environ.setdefault("AOTI_RUNTIME_CHECK_INPUTS", "1")
        try:
            # torch._inductor.aoti_load_package makes the same object, but imports the whole
            # compiler to do so, which takes longer than drawing a small picture.
            loaded = torch._C._aoti.AOTIModelPackageLoader(  # pyright: ignore
                str(folder / PACKAGE_NAME), "model", False, 1, -1
            )
        except RuntimeError as error:
            raise ArtifactDamagedError(
                f"the program of {spec.component!r} in {folder} cannot be loaded "
                f"({str(error).splitlines()[0]:.160}); see that {tempfile.gettempdir()} ($TMPDIR), where "
                "it is unpacked, has room and can be written, or remove the folder to compile it again"
            ) from error
        return _InductorProgram(spec, loaded)


class _InductorProgram(CheckedProgram):
    def __init__(self, spec: ProgramSpec, loaded: Any) -> None:
        super().__init__(spec)
        self._loaded = loaded
        self._names: tuple[str, ...] = tuple(loaded.get_constant_fqns())
        self._strides = tuple(contiguous_stride(item.shape) for item in spec.inputs)

    def _attach(self, constants: Mapping[str, Tensor]) -> None:
        # A constant that the compiler found unused is not among the names.
        chosen = {name: aligned(constants[name]) for name in self._names}
        if chosen:
            use_inactive, check_full_update, user_managed = False, True, True
            self._loaded.load_constants(chosen, use_inactive, check_full_update, user_managed)

    def _run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        # A dimension of size 1 may have any stride and be contiguous; the compiled code wants one.
        inputs = [
            aligned(
                tensor if tensor.stride() == stride else tensor.as_strided(tensor.shape, stride)
            )
            for tensor, stride in zip(tensors, self._strides, strict=True)
        ]
        # The compiler chooses strides (channels last after convolutions); the contract is contiguous.
        return [output.contiguous() for output in self._loaded.boxed_run(inputs)]


def aligned(tensor: Tensor) -> Tensor:
    """Return `tensor`, copied where its data do not start at a multiple of `ALIGNMENT_BYTES`.

    Some CPU kernels (the 8-bit weights of one row) use aligned loads, and fault on any other address.
    """
    return tensor if tensor.data_ptr() % ALIGNMENT_BYTES == 0 else tensor.clone()


def contiguous_stride(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the stride that torch gives a new tensor of `shape`.

    >>> contiguous_stride((1, 3, 4)), contiguous_stride(())
    ((12, 4, 1), ())
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def compiler_path() -> str | None:
    """Return the C++ compiler that would be used, or None."""
    return shutil.which(os.environ.get("CXX", "g++"))


def compiler_version() -> str:
    """Return name and version of the C++ compiler, or an empty string where there is none."""
    path = compiler_path()
    if path is None:
        return ""
    result = subprocess.run(
        [path, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=False
    )
    return f"{Path(path).name} {result.stdout.strip()}"
