"""What the verdicts are made of: arrays of other libraries, bounds, explanations."""
