"""Picture files: what they state, what they hold, what is wrong with them."""
