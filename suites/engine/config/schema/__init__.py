"""What may stand in a config: slots from the signatures of registered classes, checks, construction."""
