import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper.graph.operators import column_moments, row_blocks


def test_moments_of_sparse_columns_are_those_of_the_dense_matrix():
    x = sp.random(400, 30, 0.1, random_state=0, dtype=np.float32, format="csr")
    x.data += 5
    mean, std = column_moments(x)
    np.testing.assert_allclose(mean, x.toarray().mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(std, x.toarray().std(axis=0), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_far_from_zero_keep_their_digits(dtype):
    x = np.random.default_rng(0).normal(1000.0, 0.01, (5000, 3)).astype(dtype)
    mean, std = column_moments(x)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(std, exact.std(axis=0), rtol=1e-4)


def test_row_blocks_cover_all_rows_once():
    rows = [row for block in row_blocks(10, 1 << 19) for row in range(block.start, block.stop)]
    assert rows == list(range(10))
    assert len(list(row_blocks(3, 1 << 30))) == 3
