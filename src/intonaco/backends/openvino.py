"""An optional second compiler: torch.export, then OpenVINO, for programs without state on a CPU.

The stored graph takes its weights as parameters, so it holds none. `bind` puts the bound tensors in
their place and lets OpenVINO compile for this processor: that repacks weights, a copy per process.
Unlike an AOTInductor call, a call here lets other Python threads run.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from intonaco.backends.base import (
    Availability,
    CheckedProgram,
    ModuleBuilder,
    Program,
    check_declared,
    example_inputs,
    torch_dtype,
)
from intonaco.backends.machine import instruction_set
from intonaco.backends.spec import Precision, ProgramSpec
from intonaco.errors import ArtifactDamagedError

GRAPH_NAME = "program.xml"
# What OpenVINO itself reports is no help: it claims bfloat16 on processors where it has reference code only.
BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})
REMEDY = "install it with: pip install 'intonaco[openvino]'"


class OpenVinoBackend:
    """Compiles with OpenVINO. Needs the `openvino` extra, and no C++ compiler."""

    name = "openvino"
    is_compiled = True

    def __init__(self, instructions: str | None = None) -> None:
        """`instructions` are those of the processor, as `instruction_set` words them; None = read them."""
        self._instructions = instruction_set() if instructions is None else instructions

    def probe(self) -> Availability:
        """Say whether the openvino distribution is installed."""
        if util.find_spec("openvino") is not None:
            return Availability(is_available=True)
        return Availability(is_available=False, reason="openvino is not installed", remedy=REMEDY)

    def probe_compiler(self) -> Availability:
        """Say whether the openvino distribution is installed: it brings its compiler."""
        return self.probe()

    def fingerprint(self) -> Mapping[str, str]:
        """Return what a stored graph depends on."""
        return {
            "backend": self.name,
            "torch": torch.__version__,
            "openvino": metadata.version("openvino"),
            "instruction_set": self._instructions,
        }

    def supports(self, spec: ProgramSpec) -> tuple[str, ...]:
        """Return every reason why `spec` cannot be compiled here."""
        reasons: list[str] = []
        if spec.device != "cpu":
            reasons.append(f"device={spec.device!r} is not served by openvino; choose device='cpu'")
        if spec.state:
            names = ", ".join(item.name for item in spec.state)
            reasons.append(f"state ({names}) cannot be updated in a graph; choose inductor")
        reasons += self.supports_precision(spec.precision)
        reasons += [
            f"a program that needs {need.replace('_', ' ')} cannot become a graph; {remedy}"
            for need, remedy in (
                ("collectives", "choose inductor"),
                ("data_dependent_shapes", "use the mask form of bounded_attention"),
            )
            if need in spec.needs
        ]
        return tuple(reasons)

    def supports_precision(self, precision: Precision) -> tuple[str, ...]:
        """Return every reason why nothing in `precision` should run on this processor."""
        if precision == "w8a8":
            return (
                "dtype='w8a8' has products of bytes, which have no form in a graph; choose inductor",
            )
        if precision == "float32" or not BFLOAT16_FLAGS.isdisjoint(self._instructions.split()):
            return ()
        return (
            f"dtype={precision!r} multiplies bfloat16, which needs a processor with "
            f"{' or '.join(sorted(BFLOAT16_FLAGS))}, and this one has none of them: openvino would run "
            "reference code, ten and more times slower than float32; choose dtype='float32', or "
            "dtype='w8a8' on inductor",
        )

    def compile(self, spec: ProgramSpec, build: ModuleBuilder, folder: Path) -> None:
        """Write `program.xml` and its constants, without the weights. Raises `CompileError`."""
        openvino = import_quietly()
        module = build().to_empty(device=spec.device)
        check_declared(
            spec, (name for name, _ in (*module.named_parameters(), *module.named_buffers()))
        )
        names = tuple(item.name for item in spec.bound)
        placeholders = tuple(
            torch.zeros(item.shape, dtype=torch_dtype(item.dtype)) for item in spec.bound
        )
        with torch.no_grad():
            exported = torch.export.export(
                _WeightsAsInputs(module, names),
                (*placeholders, *example_inputs(spec)),
                strict=False,
            )
        check_declared(spec, exported.constants)
        model = openvino.convert_model(exported)
        all_names = (*names, *(item.name for item in spec.inputs))
        for parameter, name in zip(model.get_parameters(), all_names, strict=True):
            parameter.set_friendly_name(name)
        openvino.save_model(model, str(folder / GRAPH_NAME), compress_to_fp16=False)

    def load(self, spec: ProgramSpec, build: ModuleBuilder, folder: Path) -> Program:
        """Return the unbound program in `folder`. Raises `ArtifactDamagedError`."""
        openvino = import_quietly()
        try:
            model = openvino.Core().read_model(str(folder / GRAPH_NAME))
        except RuntimeError as error:
            raise ArtifactDamagedError(
                f"the graph of {spec.component!r} in {folder} cannot be read "
                f"({str(error).splitlines()[0]:.160}); remove the folder to compile it again"
            ) from error
        return _OpenVinoProgram(spec, openvino, model)


def import_quietly() -> Any:
    """Import openvino without its dependency that tells its maker of each import and conversion.

    With it, every event is a web request from a forked process, which hangs until the end of a process
    that compiles: it waits for a stream that another thread reads. OpenVINO goes on without it.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("openvino_telemetry", None)
    return importlib.import_module("openvino")


class _WeightsAsInputs(nn.Module):
    """Takes the module's constants as leading arguments, so that tracing folds none of them in."""

    def __init__(self, module: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = names
        # Held in a tuple: a submodule would register its parameters as constants of the graph.
        self._module = (module,)

    def forward(self, *arguments: Tensor) -> Any:
        num_constants = len(self._names)
        constants = dict(zip(self._names, arguments[:num_constants], strict=True))
        return torch.func.functional_call(self._module[0], constants, arguments[num_constants:])


class _OpenVinoProgram(CheckedProgram):
    def __init__(self, spec: ProgramSpec, openvino: Any, model: Any) -> None:
        super().__init__(spec)
        self._openvino = openvino
        self._model = model
        self._request: Any = None

    def _attach(self, constants: Mapping[str, Tensor]) -> None:
        # The read graph stays as it is, so that a program can be bound again to other weights.
        model = self._model.clone()
        for parameter in list(model.get_parameters()):
            name = parameter.get_friendly_name()
            if name in constants:
                constant = self._openvino.op.Constant(
                    self._as_openvino(constants[name]), shared_memory=True
                )
                parameter.output(0).replace(constant.output(0))
                model.remove_parameter(parameter)
        model.validate_nodes_and_infer_types()
        hint = "f32" if self.spec.precision == "float32" else "bf16"
        compiled = self._openvino.Core().compile_model(
            model,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": hint,
                "INFERENCE_NUM_THREADS": torch.get_num_threads(),
                "PERFORMANCE_HINT": "LATENCY",
            },
        )
        self._request = compiled.create_infer_request()

    def _run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        for index, tensor in enumerate(tensors):
            self._request.set_input_tensor(index, self._as_openvino(tensor))
        self._request.infer()
        return [self._output(index) for index in range(len(self.spec.outputs))]

    def _output(self, index: int) -> Tensor:
        # Copied: the request writes the next call's result to the same memory.
        item = self.spec.outputs[index]
        data = self._request.get_output_tensor(index).data
        if item.dtype == "bfloat16":
            return torch.from_numpy(data.copy().view("int16")).view(torch.bfloat16)
        return torch.from_numpy(data.copy())

    def _as_openvino(self, tensor: Tensor) -> Any:
        if tensor.dtype == torch.bfloat16:
            # numpy knows no bfloat16; the bits travel as int16.
            shape = self._openvino.Shape(list(tensor.shape))
            bits = tensor.detach().view(torch.int16).numpy()
            return self._openvino.Tensor(bits, shape, self._openvino.Type.bf16)
        return self._openvino.Tensor(tensor.detach().numpy(), shared_memory=True)
