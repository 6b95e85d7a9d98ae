"""
Kernels of libraries, as their users call them, with dlref's arguments.

Each adapter reshapes, and raises ``NotImplementedError`` for an option that the library's kernel
lacks: such cases are skipped. Nothing is computed here but what a caller has to do anyway.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np


class Kernel(NamedTuple):
    """
    A kernel of a library: its function of dlref, and the options of ``check_all``.

    ``few`` are shapes that an interpreter takes in reasonable time; ``cases`` returns the cases of
    a dtype, where those of dlref have sizes that the kernel refuses.
    """

    name: str
    op: Any
    candidate: Any
    few: Any = None
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    options: Mapping[str, Any] = MappingProxyType({})
    vjp: Any = "autograd"
    cases: Any = None


def lacks(what, condition):
    """Raise where a kernel lacks what a case has."""
    if condition:
        raise NotImplementedError(what)


def refuse(**given):
    """Raise where an option is set that a kernel lacks."""
    for name, value in given.items():
        lacks(name, value)


def complete_interpreter():
    """
    Give Triton's interpreter what compiled kernels have.

    Its numbers would stay Python's, where a kernel gets a scalar of float32, and its mathematical
    functions of the device return None.
    """
    interpreter = importlib.import_module("triton.runtime.interpreter")
    language = importlib.import_module("triton.language")
    convert = interpreter._implicit_cvt

    def as_scalar(value):
        if type(value) is not float:
            return convert(value)
        handle = interpreter.TensorHandle(np.array([value], np.float32), language.float32)
        return language.tensor(handle, language.float32)

    def of_elements(f):
        def g(x):
            numbers = f(x.handle.data).astype(x.handle.data.dtype)
            return language.tensor(interpreter.TensorHandle(numbers, x.handle.dtype), x.type)

        return g

    interpreter._implicit_cvt = as_scalar
    for name in "extra.libdevice", "extra.cuda.libdevice":
        device = importlib.import_module(f"triton.language.{name}")
        device.rsqrt, device.tanh = of_elements(lambda x: 1 / np.sqrt(x)), of_elements(np.tanh)
