"""Parts of the verdicts: arrays of other libraries, bounds, explanations."""
