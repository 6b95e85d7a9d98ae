"""What two or more chapters use, with no mathematics of its own."""
