"""Models that draw pictures."""
