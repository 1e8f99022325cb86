"""The graphs that the experiments use: a catalogue, where to find them, and how to fetch them."""
