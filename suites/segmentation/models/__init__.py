"""Segmentation architectures; one file a model family."""
