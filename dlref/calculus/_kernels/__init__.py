"""Kernels of the chapter calculus."""
