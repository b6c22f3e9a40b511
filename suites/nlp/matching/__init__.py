"""Texts that belong together: samples of several texts, losses over their vectors or scores, and their teachers."""
