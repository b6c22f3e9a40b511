"""Commands of the video suite: each module is one, see `suites.engine.cli`."""
