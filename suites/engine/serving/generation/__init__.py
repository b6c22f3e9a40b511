"""Generation of tokens for many requests at once: a cache of pages, a scheduler, and the engine that runs them."""
