"""Kernels of the chapter training."""
