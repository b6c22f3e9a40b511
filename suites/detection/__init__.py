"""Object detection: data sets, augmentation, models, losses and metrics."""
