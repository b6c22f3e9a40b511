"""Looks at a click log before it is trained on: guesses its schema, and finds what is wrong with it."""
