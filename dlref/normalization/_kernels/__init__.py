"""Kernels of the chapter normalization."""
