"""Adapters of low rank beside the layers of any model, and their files."""
