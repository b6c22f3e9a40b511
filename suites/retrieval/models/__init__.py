"""Networks that give pictures vectors, and how they pool maps."""
