"""Smaller models from larger ones: distillation, pruning of a BERT, and texts that a teacher labels."""
