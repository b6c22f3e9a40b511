"""Image classification: one label an image."""
