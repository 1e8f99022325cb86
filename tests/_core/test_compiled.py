"""The compiled loops against NumPy and SciPy, and their refusal of bad input."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphtemper._core import compiled
from graphtemper.errors import InputError
from graphtemper.graph import operators

ROOT = Path(__file__).parents[2]
_kernels = pytest.importorskip("graphtemper._core._kernels", reason="the loops are not compiled")
FLOATS, INDICES = (np.float32, np.float64), (np.int32, np.int64)


def engines(function):
    """Return what a function gives with the compiled loops and with the reference."""
    results = []
    for name in ("compiled", "reference"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(compiled.VARIABLE, name)
            compiled.kernels.cache_clear()
            assert compiled.engine() == name
            results.append(function())
    compiled.kernels.cache_clear()
    return results


def csr(seed, rows=30, columns=20, density=0.2, dtype=np.float32, index=np.int32):
    rng = np.random.default_rng(seed)
    matrix = sp.random(rows, columns, density, "csr", dtype, rng=rng)
    matrix.data -= 0.5
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    return matrix


@given(
    st.integers(0, 10_000),
    st.integers(0, 70),
    st.sampled_from([(f, g) for f in FLOATS for g in FLOATS]),
    st.sampled_from(INDICES),
    st.sampled_from([1, 2, 7]),
)
@settings(max_examples=60, deadline=None)
def test_products_have_the_bits_of_scipy(seed, width, dtypes, index, threads):
    matrix = csr(seed, dtype=dtypes[0], index=index)
    columns = np.random.default_rng(seed).standard_normal((20, width)).astype(dtypes[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "_WORTH_THREADS", 0)
        patch.setattr(operators, "num_cores", lambda: threads)
        ours, theirs = engines(lambda: operators.multiply(matrix, columns))
    expected = matrix @ columns
    for product in (ours, theirs):
        assert product.dtype == expected.dtype
        assert product.tobytes() == expected.tobytes()


def test_products_of_vectors_and_of_nothing():
    matrix = csr(0)
    vector = np.arange(20, dtype=np.float32)
    assert np.array_equal(operators.multiply(matrix, vector), matrix @ vector)
    empty = sp.csr_matrix((0, 20), dtype=np.float32)
    assert operators.multiply(empty, vector[:, None]).shape == (0, 1)
    with pytest.raises(ValueError):
        operators.multiply(matrix, vector[1:])


def arguments(matrix, columns=None):
    columns = np.ones((20, 3), np.float32) if columns is None else columns
    out = np.empty((matrix.shape[0], columns.shape[-1]), columns.dtype)
    return [matrix.indptr, matrix.indices, matrix.data, columns, out, 0, matrix.shape[0]]


BAD = {
    "negative index": lambda a: a[1].__setitem__(5, -1),
    "huge index": lambda a: a[1].__setitem__(5, 2**31 - 1),
    "index one too large": lambda a: a[1].__setitem__(-1, 20),
    "negative pointer": lambda a: a[0].__setitem__(3, -5),
    "pointers that fall": lambda a: a[0].__setitem__(3, 0),
    "pointers past the end": lambda a: a[0].__setitem__(-1, 10_000),
    "too few pointers": lambda a: a.__setitem__(0, a[0][:-1]),
    "too few values": lambda a: a.__setitem__(2, a[2][:-1]),
    "other width": lambda a: a.__setitem__(4, a[4][:, :2].copy()),
    "not contiguous": lambda a: a.__setitem__(3, np.asfortranarray(a[3])),
    "every other value": lambda a: a.__setitem__(2, a[2][::2]),
    "read-only output": lambda a: a[4].setflags(write=False),
    "integers": lambda a: a.__setitem__(3, a[3].astype(np.int32)),
    "half precision": lambda a: a.__setitem__(3, a[3].astype(np.float16)),
    "other byte order": lambda a: a.__setitem__(3, a[3].astype(">f4")),
    "mixed pointers": lambda a: a.__setitem__(0, a[0].astype(np.int64)),
    "one dimension": lambda a: a.__setitem__(3, a[3].ravel()),
    "negative row": lambda a: a.__setitem__(5, -1),
    "row past the end": lambda a: a.__setitem__(6, 31),
    "rows in reverse": lambda a: a.__setitem__(5, 31),
    "no array": lambda a: a.__setitem__(0, None),
    "too few arguments": lambda a: a.pop(),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_bad_input_is_an_error(change):
    given_ = arguments(csr(1))
    _kernels.multiply(*given_)
    change(given_)
    with pytest.raises((ValueError, TypeError, IndexError, BufferError)):
        _kernels.multiply(*given_)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_random_structures_never_crash(data):
    """Any integers in the structure give a product or an error."""
    index = data.draw(st.sampled_from(INDICES))
    limits = np.iinfo(index)
    number = st.integers(-3, 25) | st.integers(limits.min, limits.max)
    indptr = np.array(data.draw(st.lists(number, min_size=1, max_size=8)), index)
    indices = np.array(data.draw(st.lists(number, max_size=20)), index)
    values = np.ones(data.draw(st.sampled_from([indices.size, indices.size + 1])), np.float32)
    columns = np.ones((data.draw(st.integers(0, 6)), data.draw(st.integers(0, 40))), np.float32)
    out = np.zeros((max(indptr.size - 1, 0), columns.shape[1]), np.float32)
    rows = data.draw(st.integers(-1, 9)), data.draw(st.integers(-1, 9))
    try:
        _kernels.multiply(indptr, indices, values, columns, out, *rows)
    except (ValueError, IndexError):
        return
    assert np.isfinite(out).all()


def run(code, **variables):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")} | variables
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_the_variable_chooses_the_engine(monkeypatch):
    code = "from graphtemper._core.compiled import engine; print(engine())"
    for name in ("compiled", "reference"):
        assert run(code, GRAPHTEMPER_ENGINE=name).stdout.strip() == name
    monkeypatch.setenv(compiled.VARIABLE, "fast")
    with pytest.raises(InputError, match="must be compiled or reference"):
        compiled.kernels.__wrapped__()


def test_an_older_build_is_not_used(monkeypatch):
    monkeypatch.setattr(_kernels, "VERSION", compiled.VERSION - 1)
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    assert compiled.kernels.__wrapped__() is None
    monkeypatch.setenv(compiled.VARIABLE, "compiled")
    with pytest.raises(InputError, match="are not there"):
        compiled.kernels.__wrapped__()
