"""The run folder: its files, its owner, its checkpoints and its log."""
