"""Kernels of the chapter recurrent."""
