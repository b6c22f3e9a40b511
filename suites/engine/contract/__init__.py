"""What the engine asks of a suite, and what a suite may offer: tasks, steps, losses, metrics, resources."""
