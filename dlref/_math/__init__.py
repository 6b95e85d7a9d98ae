"""What two or more chapters compute with."""
