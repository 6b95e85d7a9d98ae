"""
Models of the package transformers in float64 throughout.

Their norms, rotations, softmaxes and recurrences ask for ``torch.float32`` by name, whatever the
model's dtype. Here the name means float64 in the files of a model, and nothing else changes.
"""

import contextlib
import importlib
import pkgutil
from unittest import mock

import peers

#: Names of float32 in PyTorch.
NARROW = ("float32", "float")


class WidePyTorch:
    """The package torch, whose float32 is float64."""

    def __getattr__(self, name):
        return getattr(peers.torch, "float64" if name in NARROW else name)


@contextlib.contextmanager
def in_float64(*packages):
    """Let float32 mean float64 in these packages of models and in the rotations."""
    wide = WidePyTorch()
    modules = [importlib.import_module("transformers.modeling_rope_utils")]
    for package in packages:
        path = importlib.import_module(f"transformers.models.{package}").__path__
        names = [info.name for info in pkgutil.iter_modules(path)]
        modules += [
            importlib.import_module(f"transformers.models.{package}.{name}")
            for name in names
            if name.startswith("modeling_")
        ]
    usual = peers.torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        stack.callback(peers.torch.set_default_dtype, usual)
        peers.torch.set_default_dtype(peers.torch.float64)
        for module in modules:
            stack.enter_context(mock.patch.object(module, "torch", wide))
        tensor = peers.torch.Tensor
        stack.enter_context(mock.patch.object(tensor, "float", tensor.double))
        yield
