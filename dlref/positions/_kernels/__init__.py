"""Kernels of the chapter positions."""
