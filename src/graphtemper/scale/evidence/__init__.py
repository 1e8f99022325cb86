"""Evidence about a stored graph: sums over all nodes, and a sample."""
