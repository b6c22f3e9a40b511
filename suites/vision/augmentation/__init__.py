"""Transforms of samples and batches of images, and their contracts."""
