"""CaGCN with zero weights."""

import numpy as np
import pytest

from graphtemper.calibrators import CaGCN

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")


def all_zero(parameters):
    for array in parameters:
        array[...] = 0.0


def test_cagcn_with_zero_weights_is_its_floor(scene, with_weights):
    authors = with_weights(CaGCN(), all_zero)
    port = with_weights(CaGCN(floor=1.0, margin=0.0), all_zero)
    np.testing.assert_allclose(authors, 1 / np.log(2.1), rtol=1e-6)
    np.testing.assert_allclose(port, 1 / np.log(2.0), rtol=1e-6)
