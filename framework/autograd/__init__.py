"""Reverse-mode differentiation: the tape, the gradient rules and their numerical check."""
