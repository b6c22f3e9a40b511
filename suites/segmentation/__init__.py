"""Semantic segmentation: a class for every pixel. Data sets, augmentation, models, losses and metrics."""
