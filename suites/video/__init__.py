"""Video classification: one label a clip."""
