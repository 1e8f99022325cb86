"""Labels of a target: as people give them, a few of them, sessions, and confidence sequences."""
