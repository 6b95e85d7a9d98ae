"""Numerical building blocks that several chapters share."""
