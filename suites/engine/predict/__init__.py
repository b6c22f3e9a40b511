"""One way to predict: runs and exports, evaluation, 8-bit inference."""
