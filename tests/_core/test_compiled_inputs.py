"""Bad input of the compiled loops gives an error, never a crash."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests._core.test_compiled import INDICES, csr

_kernels = pytest.importorskip("graphtemper._core._kernels", reason="the loops are not compiled")


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
