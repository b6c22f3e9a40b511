"""A config as text and as a tree: YAML, `extends`, overrides, references. Knows no class."""
