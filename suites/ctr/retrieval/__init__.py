"""Items out of a catalogue: the figures of finding them."""
