"""Training: the loop, what one update is, and the hooks around it."""
