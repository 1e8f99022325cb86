"""Models of any kind on shards, run on the exact receptive fields of some nodes at a time."""
