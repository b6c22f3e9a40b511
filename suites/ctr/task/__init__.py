"""The tasks on click logs: ranking rows by their probability of a click, and retrieving items of a catalogue."""
