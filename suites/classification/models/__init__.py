"""Image classifiers, one file a family."""
