"""Items out of a catalogue: the figures of finding them, and the index that a server searches."""
