"""Commands of the text suite: each module is one, see `suites.engine.cli`."""
