"""A device that computes on the host and refuses what a GPU refuses: operands that lie elsewhere.

For processes of their own: a device's name can be given away once per process, and stays.

    with pretended() as pretend:
        model.to(pretend.device)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
# What moves a tensor from one device to another.
MOVES = {"aten::_to_copy", "aten::copy_"}
NUMBER = "aten::_local_scalar_dense"
# Which of attention's kernels: 0 = the plain one.
CHOICE = "aten::_fused_sdp_choice"


class PretendTensor(torch.Tensor):
    """A tensor that says it is on the pretended device; its numbers are `held`, on the host."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "PretendTensor":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )
        made.held = held
        return made

    def __repr__(self) -> str:
        return f"PretendTensor({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class Pretend(TorchDispatchMode):
    """While it is entered, tensors can be made on the device and moved to it, in one thread.

    Attributes:
        moves: the calls so far that moved a tensor to the device or from it, or a number to the host.
    """

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[str] = []

    @property
    def device(self) -> torch.device:
        return torch.device(NAME, 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = _run(func, args, kwargs or {})
        if _crosses(func._schema.name, args, result):
            self.moves.append(func._schema.name)
        return result


@contextmanager
def pretended() -> Iterator[Pretend]:
    """Make the device known to this process, for good, and enter it."""
    if not hasattr(torch, NAME):
        _setup_privateuseone_for_python_backend(NAME)
    with Pretend() as pretend:
        yield pretend


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call `func` on the numbers held; what it makes is on the device it is asked for, or its operands'."""
    name = func._schema.name
    if name == CHOICE:
        return 0
    theirs = _operands_on_device(name, args, kwargs)
    target = kwargs.get("device")
    is_theirs = bool(theirs) if target is None else torch.device(target).type == NAME
    if target is not None and is_theirs:
        kwargs = {**kwargs, "device": torch.device("cpu"), "pin_memory": False}
    result = func(*tree_map(_held, args), **tree_map(_held, kwargs))
    outer = {id(tensor.held): tensor for tensor in theirs}

    def wrap(value: Any) -> Any:
        if not (is_theirs and isinstance(value, torch.Tensor)):
            return value
        # What was changed in place stays the same object.
        return outer[id(value)] if id(value) in outer else PretendTensor(value)

    return tree_map(wrap, result)


def _operands_on_device(name: str, args: Any, kwargs: dict[str, Any]) -> list[PretendTensor]:
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    theirs = [tensor for tensor in tensors if isinstance(tensor, PretendTensor)]
    # A number on the host is an operand everywhere.
    ours = [tensor for tensor in tensors if not isinstance(tensor, PretendTensor) and tensor.dim()]
    if theirs and ours and name not in MOVES:
        raise RuntimeError(f"{name}: operands on {NAME} and on {ours[0].device}")
    return theirs


def _crosses(name: str, args: tuple[Any, ...], result: Any) -> bool:
    if name == NUMBER:
        return isinstance(args[0], PretendTensor)
    tensors = [value for value in (*args, result) if isinstance(value, torch.Tensor)]
    return name in MOVES and len({isinstance(tensor, PretendTensor) for tensor in tensors}) == 2


def _held(value: Any) -> Any:
    return value.held if isinstance(value, PretendTensor) else value
