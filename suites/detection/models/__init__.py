"""Detectors, one file a family."""
