"""Kernels of the chapter attention."""
