"""Commands of the suite of text in pictures: each module is one, see `suites.engine.cli`."""
