"""Helpers of two or more chapters, with no mathematics of their own."""
