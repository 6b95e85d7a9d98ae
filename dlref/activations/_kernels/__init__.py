"""Kernels of the chapter activations."""
