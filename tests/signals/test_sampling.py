"""Every neighbour is drawn alike."""

import numpy as np

from graphtemper._core.reproducible import mixed
from graphtemper.signals import sampling

KEYS = mixed(np.arange(400, dtype=np.uint64))


def test_every_neighbour_is_as_likely():
    counts = np.array([1, 0, 4, 5])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    found = np.zeros(10)
    for salt in mixed(np.arange(4000, dtype=np.uint64)):
        positions = sampling.partners(indptr, KEYS[:4], KEYS[10:20], salt)
        assert positions.size == 3
        found[positions] += 1
    np.testing.assert_allclose(found / 4000, np.repeat([1.0, 0.25, 0.2], [1, 4, 5]), atol=0.03)
