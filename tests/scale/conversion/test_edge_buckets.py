"""The external sort of edges."""

import numpy as np

from graphtemper.scale.conversion.edge_buckets import EdgeBuckets


def test_buckets_are_read_one_at_a_time(tmp_path):
    """Reading a shard loads its bucket alone and removes it."""
    buckets = EdgeBuckets(tmp_path, [(0, 3), (3, 6)])
    for _ in range(3):
        buckets.add(np.array([[0, 5], [4, 3], [2, 2]]))
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes == {"bucket-00000": 3 * 8, "bucket-00001": 9 * 8}
    assert [a.tolist() for a in buckets.rows(0)] == [[0, 1, 1, 1], [5]]
    assert [a.tolist() for a in buckets.rows(1)] == [[0, 1, 2, 3], [4, 3, 0]]
    assert not list(tmp_path.iterdir())
