"""Evidence about a sharded graph, as sums over its shards."""
