"""Video classifiers, one file a family."""
