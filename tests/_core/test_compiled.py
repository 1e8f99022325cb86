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
from tests.helpers import raises

from graphtemper import csbm, metrics, temperature
from graphtemper._core import compiled
from graphtemper.errors import InputError
from graphtemper.graph import operators
from graphtemper.graph.operators import link_rows, normalised_matrix
from graphtemper.metrics.binned import bin_probabilities
from graphtemper.temperature import inverse

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


@given(
    st.integers(0, 10_000), st.integers(0, 40), st.sampled_from(INDICES), st.sampled_from(FLOATS)
)
@settings(max_examples=40, deadline=None)
def test_wide_products_have_the_bits_of_scipy_in_float64(seed, width, index, dtype):
    matrix = csr(seed, dtype=dtype, index=index)
    columns = np.random.default_rng(seed).standard_normal((20, width)).astype(np.float32)
    expected = matrix.astype(np.float64) @ columns.astype(np.float64)
    for product in engines(lambda: operators.multiply(matrix, columns, wide=True)):
        assert product.dtype == np.float64
        assert product.tobytes() == expected.tobytes()


def test_products_of_vectors_and_of_nothing():
    matrix = csr(0)
    vector = np.arange(20, dtype=np.float32)
    assert np.array_equal(operators.multiply(matrix, vector), matrix @ vector)
    empty = sp.csr_matrix((0, 20), dtype=np.float32)
    assert operators.multiply(empty, vector[:, None]).shape == (0, 1)
    with pytest.raises(ValueError):
        operators.multiply(matrix, vector[1:])


@given(st.integers(0, 10_000), st.integers(1, 40), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_rows_of_links_are_sorted_in_both_engines(seed, num_nodes, loops, in_order):
    """Against a dense matrix, for links in any order."""
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((num_nodes, num_nodes)) < rng.random(), 1)
    links = np.argwhere(dense).astype(np.int32)
    if not in_order:
        links = rng.permutation(links)
    whole = dense | dense.T | (np.eye(num_nodes, dtype=bool) & loops)
    for indices, indptr in engines(lambda: link_rows(links, num_nodes, loops=loops)):
        assert indices.tolist() == np.nonzero(whole)[1].tolist()
        assert np.diff(indptr).tolist() == whole.sum(axis=1).tolist()
        assert indices.dtype == indptr.dtype == np.int32


@pytest.mark.parametrize("kind", ["mean", "symmetric", "self-loop"])
def test_operators_have_the_same_bits_in_both_engines(kind):
    graph = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, seed=1)
    ours, theirs = engines(lambda: normalised_matrix(graph, kind))
    for part in ("indptr", "indices", "data"):
        assert getattr(ours, part).tobytes() == getattr(theirs, part).tobytes()


def predictions(seed, rows, classes, dtype=np.float64, scale=3.0):
    """Return logits with ties, and labels."""
    rng = np.random.default_rng(seed)
    logits = (scale * rng.standard_normal((rows, classes))).round(1).astype(dtype)
    return logits, rng.integers(classes, size=rows)


@given(
    st.integers(0, 10_000),
    st.integers(1, 300),
    st.integers(2, 12),
    st.integers(1, 40),
    st.sampled_from(FLOATS),
    st.sampled_from(["left", "right"]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_bins_have_the_bits_of_numpy(seed, rows, classes, bins, dtype, closed, uneven):
    logits, labels = predictions(seed, rows, classes)
    p = temperature.apply(logits).astype(dtype)
    p[::3] = np.eye(classes, dtype=dtype)[labels[::3]]
    p[1::5] = np.array([0.2, 0.8] + [0.0] * (classes - 2), dtype)  # on an edge of five bins
    edges = np.unique([0.0, *np.random.default_rng(seed).random(bins), 1.0]) if uneven else None
    for table in (p, p[::2], np.asfortranarray(p)):
        ours, theirs = engines(
            lambda table=table: bin_probabilities(
                table, labels[: len(table)], bins, closed=closed, edges=edges
            )
        )
        for name in ("count", "confidence_sum", "correct_sum", "variance_sum"):
            assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes(), name


@given(
    st.integers(0, 10_000),
    st.integers(1, 300),
    st.integers(2, 12),
    st.sampled_from(FLOATS),
    st.sampled_from([1e-3, 1.0, 30.0, 1e4]),
)
@settings(max_examples=60, deadline=None)
def test_temperatures_agree(seed, rows, classes, dtype, scale):
    z, y = predictions(seed, rows, classes, dtype, scale)
    for beta in (1e-2, 1.0, 7.0):
        for function in (inverse.nll_derivatives, inverse.confidence_derivatives):
            extra = (-0.5,) if function is inverse.nll_derivatives else ()
            ours, theirs = engines(lambda f=function, e=extra, b=beta: f(z, *e, b))
            size = max(map(abs, theirs))
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * (1.0 + size))
    for labels in (y, None):
        ours, theirs = engines(lambda labels=labels: inverse.summarise(z, labels))
        if labels is not None:  # the limit is computed without labels only
            ours, theirs = ours[:-1], theirs[:-1]
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    ours, theirs = engines(lambda: temperature.solve(z, y))
    assert ours.status == theirs.status
    assert ours.temperature == pytest.approx(theirs.temperature, rel=1e-8)


@given(st.integers(0, 1000), st.integers(1, 3000), st.integers(1, 9), st.sampled_from(FLOATS))
@settings(max_examples=40, deadline=None)
def test_moments_have_the_bits_of_numpy(seed, rows, width, dtype):
    x = (np.random.default_rng(seed).standard_normal((rows, width)) + 5.0).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "BLOCK_ELEMENTS", 1000)
        ours, theirs = engines(lambda: operators.column_moments(x))
    for one, other in zip(ours, theirs, strict=True):
        assert one.tobytes() == other.tobytes()


def test_the_exponential_is_exact_to_rounding():
    """The derivative of one node with gaps 0 and d is d e^d / (1 + e^d)."""
    gaps = -np.concatenate([np.logspace(-300, 2.8, 400), np.linspace(0.0, 700.0, 800)])
    ours = [_kernels.nll_sums(np.array([[0.0, gap]]), 1.0, 0, 1)[0] for gap in gaps.tolist()]
    expected = gaps * np.exp(gaps) / (1.0 + np.exp(gaps))
    np.testing.assert_allclose(ours, expected, rtol=1e-15 * 5, atol=1e-305)


def test_threads_do_not_change_a_temperature(monkeypatch):
    z, y = predictions(0, 60_000, 10)
    y = np.where(y < 6, z.argmax(axis=1), y)
    found = set()
    for threads in (1, 2, 7):
        monkeypatch.setattr("graphtemper._core.reproducible.num_cores", lambda t=threads: t)
        p = temperature.apply(z)
        found.add((temperature.fit(z, y), temperature.match_confidence(z, 0.7), metrics.ece(p, y)))
    assert len(found) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_both_engines_refuse_bad_numbers(value):
    z, y = predictions(0, 200, 3)
    p = temperature.apply(z)
    z[130, 1] = p[130, 1] = value
    for function in (lambda: temperature.fit(z, y), lambda: metrics.ece(p, y)):
        messages = []
        for name in ("compiled", "reference"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(compiled.VARIABLE, name)
                compiled.kernels.cache_clear()
                with raises("not-finite") as refused:
                    function()
                messages.append(str(refused.value))
        compiled.kernels.cache_clear()
        assert messages[0] == messages[1]


def run(code, **variables):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")} | variables
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_the_variable_chooses_the_engine(monkeypatch):
    code = "from graphtemper._core.compiled import engine; print(engine())"
    for name in ("compiled", "reference"):
        assert run(code, GRAPHTEMPER_ENGINE=name).stdout.strip() == name
    monkeypatch.setenv(compiled.VARIABLE, "fast")
    with raises("choice"):
        compiled.kernels.__wrapped__()


def test_an_older_build_is_not_used(monkeypatch):
    monkeypatch.setattr(_kernels, "VERSION", compiled.VERSION - 1)
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    assert compiled.kernels.__wrapped__() is None
    monkeypatch.setenv(compiled.VARIABLE, "compiled")
    with pytest.raises(InputError):
        compiled.kernels.__wrapped__()
