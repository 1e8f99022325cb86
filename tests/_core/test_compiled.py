"""The compiled loops against NumPy and SciPy, and their refusal of bad input."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphtemper import csbm, metrics, temperature
from graphtemper._core import compiled
from graphtemper.errors import InputError
from graphtemper.graph import operators
from graphtemper.graph.normalised import EdgeSubsets, link_rows
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


def arguments(matrix, columns=None):
    columns = np.ones((20, 3), np.float32) if columns is None else columns
    out = np.empty((matrix.shape[0], columns.shape[-1]), columns.dtype)
    rows = matrix.shape[0]
    places = np.arange(rows)[::-1].copy()
    return [matrix.indptr, matrix.indices, matrix.data, columns, out, places, 0, rows]


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
    "negative row": lambda a: a.__setitem__(6, -1),
    "row past the end": lambda a: a.__setitem__(7, 31),
    "rows in reverse": lambda a: a.__setitem__(6, 31),
    "negative place": lambda a: a[5].__setitem__(4, -1),
    "huge place": lambda a: a[5].__setitem__(4, 2**62),
    "too few places": lambda a: a.__setitem__(5, a[5][:-1].copy()),
    "narrow places": lambda a: a.__setitem__(5, a[5].astype(np.int32)),
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
        _kernels.multiply(indptr, indices, values, columns, out, None, *rows)
    except (ValueError, IndexError):
        return
    assert np.isfinite(out).all()


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


def link_arguments():
    links = np.array([[0, 1], [2, 4], [1, 3]], np.int32)
    return [links, np.empty(6, np.int32), np.empty(11, np.int32), True]


BAD_LINKS = {
    "negative end": lambda a: a[0].__setitem__((1, 0), -1),
    "end past the last node": lambda a: a[0].__setitem__((1, 1), 5),
    "huge end": lambda a: a[0].__setitem__((1, 1), 2**31 - 1),
    "larger end first": lambda a: a.__setitem__(0, a[0][:, ::-1].copy()),
    "a loop": lambda a: a[0].__setitem__((1, 1), 2),
    "wide links": lambda a: a.__setitem__(0, a[0].astype(np.int64)),
    "real links": lambda a: a.__setitem__(0, a[0].astype(np.float32)),
    "links not contiguous": lambda a: a.__setitem__(0, np.asfortranarray(a[0])),
    "one dimension": lambda a: a.__setitem__(0, a[0].ravel()),
    "three ends": lambda a: a.__setitem__(0, np.zeros((3, 3), np.int32)),
    "too few pointers": lambda a: a.__setitem__(1, a[1][:-1]),
    "no pointers": lambda a: a.__setitem__(1, a[1][:0]),
    "wide pointers": lambda a: a.__setitem__(1, a[1].astype(np.int64)),
    "too few indices": lambda a: a.__setitem__(2, a[2][:-1]),
    "too many indices": lambda a: a.__setitem__(2, np.empty(12, np.int32)),
    "every other index": lambda a: a.__setitem__(2, np.empty(22, np.int32)[::2]),
    "read-only indices": lambda a: a[2].setflags(write=False),
    "no loops": lambda a: a.__setitem__(3, False),
    "no array": lambda a: a.__setitem__(2, None),
    "too few arguments": lambda a: a.pop(),
}


@pytest.mark.parametrize("change", BAD_LINKS.values(), ids=BAD_LINKS)
def test_bad_links_are_an_error(change):
    given_ = link_arguments()
    _kernels.link_rows(*given_)
    change(given_)
    with pytest.raises((ValueError, TypeError, IndexError, BufferError)):
        _kernels.link_rows(*given_)


def value_arguments():
    matrix = csr(1, rows=20)
    scale = np.ones(20)
    return [matrix.indptr, matrix.indices, scale, np.empty(matrix.nnz, np.float32), scale, 0, 20]


BAD_VALUES = {
    "negative index": lambda a: a[1].__setitem__(5, -1),
    "huge index": lambda a: a[1].__setitem__(5, 2**31 - 1),
    "negative pointer": lambda a: a[0].__setitem__(3, -5),
    "pointers that fall": lambda a: a[0].__setitem__(3, 0),
    "pointers past the end": lambda a: a[0].__setitem__(-1, 10_000),
    "too few pointers": lambda a: a.__setitem__(0, a[0][:-1]),
    "wide pointers": lambda a: a.__setitem__(0, a[0].astype(np.int64)),
    "too few values": lambda a: a.__setitem__(3, a[3][:-1]),
    "wide values": lambda a: a.__setitem__(3, a[3].astype(np.float64)),
    "read-only values": lambda a: a[3].setflags(write=False),
    "narrow factors": lambda a: a.__setitem__(2, a[2].astype(np.float32)),
    "too few factors": lambda a: a.__setitem__(4, a[4][:10]),
    "every other factor": lambda a: a.__setitem__(2, np.ones(40)[::2]),
    "negative row": lambda a: a.__setitem__(5, -1),
    "row past the end": lambda a: a.__setitem__(6, 21),
    "too few arguments": lambda a: a.pop(),
}


@pytest.mark.parametrize("change", BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_values_are_an_error(change):
    given_ = value_arguments()
    _kernels.scaled_ones(*given_)
    assert (given_[3] == 1.0).all()
    change(given_)
    with pytest.raises((ValueError, TypeError, IndexError, BufferError)):
        _kernels.scaled_ones(*given_)


@pytest.mark.parametrize("kind", ["mean", "symmetric", "self-loop"])
def test_operators_have_the_same_bits_in_both_engines(kind):
    graph = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, seed=1)
    ours, theirs = engines(lambda: EdgeSubsets(graph, kind).operator())
    for part in ("indptr", "indices", "data"):
        assert getattr(ours, part).tobytes() == getattr(theirs, part).tobytes()


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_random_links_never_crash(data):
    """Any integers as links give rows or an error."""
    number = st.integers(-2, 9) | st.integers(-(2**31), 2**31 - 1)
    links = np.array(data.draw(st.lists(st.tuples(number, number), max_size=12)), np.int32)
    links, nodes, loops = (
        links.reshape(-1, 2),
        data.draw(st.integers(0, 8)),
        data.draw(st.booleans()),
    )
    size = 2 * len(links) + nodes * loops
    indptr, indices = np.empty(nodes + 1, np.int32), np.full(size, -1, np.int32)
    try:
        _kernels.link_rows(links, indptr, indices, loops)
    except IndexError:
        return
    assert ((indices >= 0) & (indices < max(nodes, 1))).all()
    assert indptr[-1] == size


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


def test_bad_columns_are_an_error():
    table, out, centre = np.ones((4, 3), np.float32), np.zeros(3), np.ones(3, np.float32)
    _kernels.column_sums(table, out, centre, 0, 4)
    for bad in (
        (table, out[:2], None, 0, 4),
        (table, out, centre[:2], 0, 4),
        (table, out, centre.astype(float), 0, 4),
        (table.T, out, centre, 0, 3),
        (table, out, None, 0, 5),
        (table, out, None, -1, 4),
        (table, centre, None, 0, 4),
    ):
        with pytest.raises((ValueError, TypeError, BufferError)):
            _kernels.column_sums(*bad)


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
                with pytest.raises(InputError, match="130") as refused:
                    function()
                messages.append(str(refused.value))
        compiled.kernels.cache_clear()
        assert messages[0] == messages[1]


def bin_arguments():
    p, y = np.full((6, 2), 0.5), np.zeros(6, np.int64)
    sums = np.zeros(10, np.int64), np.zeros(5), np.zeros(5)
    return [p, y, np.linspace(0, 1, 6), *sums, 0, 6, True, False, 1e-3, 1e-9]


BAD_BINS = {
    "too few labels": lambda a: a.__setitem__(1, a[1][:-1]),
    "narrow labels": lambda a: a.__setitem__(1, a[1].astype(np.int32)),
    "too few edges": lambda a: a.__setitem__(2, a[2][:-1]),
    "too few counts": lambda a: a.__setitem__(3, a[3][:-1]),
    "no bins": lambda a: [a.__setitem__(i, a[i][:0]) for i in (3, 4, 5)],
    "columns apart": lambda a: a.__setitem__(0, np.asfortranarray(a[0])),
    "one dimension": lambda a: a.__setitem__(0, a[0].ravel()),
    "row past the end": lambda a: a.__setitem__(7, 7),
    "negative row": lambda a: a.__setitem__(6, -1),
    "read-only sums": lambda a: a[4].setflags(write=False),
}


@pytest.mark.parametrize("change", BAD_BINS.values(), ids=BAD_BINS)
def test_bad_bins_are_an_error(change):
    given_ = bin_arguments()
    assert _kernels.bin_rows(*given_) == -1
    change(given_)
    with pytest.raises((ValueError, TypeError, BufferError)):
        _kernels.bin_rows(*given_)


def test_labels_out_of_range_are_found():
    for label in (-1, 2, 2**62, -(2**62)):
        given_ = bin_arguments()
        given_[1][4] = label
        assert _kernels.bin_rows(*given_) == 4
        assert _kernels.summary(given_[0], given_[1], 0, 6) is None


@pytest.mark.parametrize("rows", [(-1, 3), (0, 7), (4, 3), (2**62, 2**62)])
def test_rows_out_of_range_are_an_error(rows):
    z = np.zeros((6, 2))
    for function in (_kernels.nll_sums, _kernels.confidence_sums):
        with pytest.raises(ValueError):
            function(z, 1.0, *rows)
        with pytest.raises((ValueError, TypeError)):
            function(z.T, 1.0, 0, 1)
    with pytest.raises(ValueError):
        _kernels.summary(z, np.zeros(5, np.int64), 0, 6)


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


KINDS = ("f2", "f4", "f8", ">f4", ">f8", "i4", "i8", "u8", "c8", "?")
REFUSED = (ValueError, TypeError, IndexError, BufferError, OverflowError)


@st.composite
def any_array(draw):
    """An array of any type, up to three dimensions, any strides, with NaN and infinity."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    numbers = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e300, np.nan, np.inf, -np.inf])
    size = int(np.prod(shape))
    values = np.array(draw(st.lists(numbers, min_size=size, max_size=size))).reshape(shape)
    with np.errstate(all="ignore"):
        array = values.astype(draw(st.sampled_from(KINDS)))
    if array.ndim and draw(st.booleans()):
        array = draw(
            st.sampled_from([array.T, array[::-1], array[::2], np.repeat(array, 2, 0)[::2]])
        )
    if draw(st.booleans()):
        array.setflags(write=False)
    return array


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_input_crashes(data):
    """Every function gives a result or an error, whatever it is called with."""
    row = st.integers(-2, 6) | st.sampled_from([2**31, 2**62, -(2**62)])
    array, number = any_array(), st.sampled_from([0.0, 1.0, -1.0, np.nan, np.inf, 1e308])
    some = array | st.none()
    signatures = {
        "multiply": [array] * 5 + [some, row, row],
        "link_rows": [array] * 3 + [st.booleans()],
        "scaled_ones": [array] * 4 + [some, row, row],
        "bin_rows": [array] * 6 + [row, row, st.booleans(), st.booleans(), number, number],
        "nll_sums": [array, number, row, row],
        "confidence_sums": [array, number, row, row],
        "summary": [array, some, row, row],
        "column_sums": [array, array, some, row, row],
    }
    name = data.draw(st.sampled_from(sorted(signatures)))
    arguments = [data.draw(strategy) for strategy in signatures[name]]
    with contextlib.suppress(*REFUSED):
        getattr(_kernels, name)(*arguments)


def test_every_compiled_function_is_fuzzed():
    functions = {name for name in dir(_kernels) if callable(getattr(_kernels, name))}
    source = Path(__file__).read_text()
    assert {name for name in functions if not name.startswith("__")} == {
        name for name in functions if f'"{name}": [' in source
    }
