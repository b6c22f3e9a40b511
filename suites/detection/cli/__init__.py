"""Commands of the detection suite: each module is one, see `suites.engine.cli`."""
