"""Columns of Parquet files as arrays."""

import warnings
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from graphtemper.scale.storage.parquet import to_floats  # noqa: E402


def test_a_signalling_nan_is_read_without_a_warning():
    """The NaN itself is refused where the array is checked."""
    bits = np.array([0x3F800000, 0x7F800001], np.uint32)  # 1 and a signalling NaN
    batch = pa.record_batch({"x": pa.array(bits.view(np.float32))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = to_floats(batch, ["x"], Path("x.parquet"))
    assert values[0, 0] == 1.0
    assert np.isnan(values[1, 0])
