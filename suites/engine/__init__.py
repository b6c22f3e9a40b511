"""How any task is run: config, registry, trainer, hooks, checkpoints, logging."""
