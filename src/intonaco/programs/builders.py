"""Finds the function that builds a program's module, and calls it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from torch import nn

from intonaco.backends.base import ModuleBuilder
from intonaco.backends.spec import ProgramSpec
from intonaco.errors import ProgramKeyError

BuilderFunction = Callable[..., nn.Module]


def module_builder(spec: ProgramSpec) -> ModuleBuilder:
    """Return a function that builds the module of `spec` on the meta device, ready to trace.

    The builder is imported when that function is called, not before. Raises `ProgramKeyError` then,
    when the builder cannot be found.
    """

    def build() -> nn.Module:
        with torch.device("meta"):
            module = find_builder(spec.builder)(precision=spec.precision, **spec.config)
        return module.eval().requires_grad_(False)

    return build


def find_builder(name: str) -> BuilderFunction:
    """Return the function named "package.module:function"."""
    module_name, _, function_name = name.partition(":")
    try:
        return getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ProgramKeyError(
            f"a builder is named 'package.module:function', got {name!r} ({error})"
        ) from error
