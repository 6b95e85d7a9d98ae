"""Kernels of the chapter losses."""
