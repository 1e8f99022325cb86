"""Labels of a target as people give them: a mapping, a vector, or a table in a CSV file."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_integer
from graphtemper._core.printable import natural_key
from graphtemper._core.reproducible import stream
from graphtemper._core.safe_reading import read_lines
from graphtemper.recalibration.labels.few_labels import Labels

if TYPE_CHECKING:
    from pandas import Series

    from graphtemper.recalibration.applied import Applied

LabelsGiven: TypeAlias = "Mapping[int, int] | Series[int] | ArrayLike"
"""Labels of the target: ``{node: class}``, a pandas ``Series`` of classes indexed by node, or one
class per node of the graph, -1 where unknown."""
MOST = 10**9
"""Nodes of a graph, if their number is not known."""
UNKNOWABLE = "?"
"""What a table has in place of a class if a node cannot be labelled."""


def read_labels(
    labels: LabelsGiven, nodes: NDArray[np.int64], num_nodes: int, num_classes: int
) -> Labels:
    """Check labels against the graph, the chosen nodes and the classes.

    Parameters
    ----------
    labels
        Class of each labelled node, or None if it cannot be labelled; there may be none.
    nodes
        The chosen nodes, whose rows the result refers to.
    num_nodes, num_classes
        Number of nodes of the graph and of classes of the model.

    Examples
    --------
    >>> read_labels({7: 1}, np.array([5, 7]), 10, 2).rows.tolist()
    [1]
    >>> read_labels([-1, 0, 1], np.array([1, 2]), 3, 2).classes.tolist()
    [0, 1]
    >>> read_labels({6: 1}, np.array([5, 7]), 10, 2)
    Traceback (most recent call last):
    graphtemper.errors.InputError: labels name node 6, which is not among the chosen nodes; ...
    """
    return as_labels(checked(labels, nodes, num_nodes, num_classes))


def as_labels(answers: Mapping[int, int | None], columns: FloatArray | None = None) -> Labels:
    """Return the classes of rows that have one, next to other columns of all rows."""
    known = {row: label for row, label in answers.items() if label is not None}
    rows, classes = (np.array(list(part), np.int64) for part in (known, known.values()))
    return Labels(rows, classes, columns)


def checked(
    labels: Any, nodes: NDArray[np.int64], num_nodes: int, num_classes: int
) -> dict[int, int | None]:
    """Return classes by row among the chosen nodes; None where a node cannot be labelled."""
    pairs = _pairs(labels, nodes, num_nodes)
    row = {int(node): k for k, node in reversed(list(enumerate(nodes)))} if pairs else {}
    found: dict[int, int | None] = {}
    for key, value in pairs:
        node = check_integer(key, "a node in labels", 0, num_nodes - 1)
        if node not in row:
            raise errors.foreign(
                f"labels name node {node}, which is not among the chosen nodes; choose it with "
                "`nodes`, or leave its label out."
            )
        if row[node] in found:
            raise errors.repeated(f"labels name node {node} twice; keep one label per node.")
        found[row[node]] = value
        if value is not None:
            what = f"the label of node {node}"
            found[row[node]] = check_integer(value, what, 0, num_classes - 1)
    return found


def _pairs(labels: Any, nodes: NDArray[np.int64], num_nodes: int) -> list[tuple[Any, Any]]:
    """Return nodes and classes of a mapping, of what has an index and items, or of a vector.

    A vector has the classes of all nodes of the graph, of which the chosen ones are read.

    Examples
    --------
    >>> _pairs({17: 2}, np.arange(20), 20), _pairs(np.array([-1, 1, 0]), np.array([1]), 3)
    ([(17, 2)], [(1, 1)])
    """
    is_series = hasattr(labels, "index") and callable(getattr(labels, "items", None))
    if is_series or isinstance(labels, Mapping):
        if getattr(labels, "ndim", 1) != 1:
            raise errors.shape("labels is a table; pass its column of classes, indexed by node.")
        return list(labels.items())
    values = np.asarray(labels)
    if values.dtype.kind not in "iu" or values.shape != (num_nodes,) or values.min() < -1:
        raise errors.wrong_type(
            "labels must map nodes to classes, as in {17: 2} or a Series indexed by node, or be "
            f"one integer for each of the {num_nodes} nodes, -1 where unknown, not a "
            f"{type(labels).__name__} of {values.dtype} and shape {values.shape}."
        )
    known = np.unique(nodes[values[nodes] >= 0])
    return list(zip(known.tolist(), values[known].tolist(), strict=True))


def suggest_labels(result: Applied, count: int, seed: int = 0) -> NDArray[np.int64]:
    """Return nodes to label: a simple random sample of those of a result, in random order.

    These are the first ``count`` nodes that a `LabelSession` of the same seed asks for. Samples
    that are spread over confidence were no better on families of natural graphs: what confidence
    explains is taken out of the answer instead.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> suggest_labels(SimpleNamespace(nodes=np.arange(100, 110)), 3).tolist()
    [107, 100, 106]
    """
    if not hasattr(result, "nodes"):
        raise errors.wrong_type("suggest_labels(result, count) takes what recalibrate returned.")
    nodes = np.asarray(result.nodes)
    return nodes[drawn_order(nodes.size, seed)[: check_integer(count, "count", 1, nodes.size)]]


def drawn_order(size: int, seed: int) -> NDArray[np.int64]:
    """Return the places of nodes in a random order."""
    return stream(seed, "labelling session").permutation(size)


def read_label_file(
    path: str | os.PathLike[str], num_nodes: int, num_classes: int
) -> dict[int, int | None]:
    r"""Read labels from a table with the columns node and class; other columns are not read.

    A node without a class is not labelled yet and left out; with the class ``?`` it cannot be
    labelled, and its label is None. A line that repeats another counts once.

    Parameters
    ----------
    path
        A CSV file in UTF-8.
    num_nodes, num_classes
        Exclusive upper bounds of nodes and classes.

    Examples
    --------
    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> _ = table.write_text("node,class\n17,2\n18,\n19,?\n4711,0\n")
    >>> read_label_file(table, 5000, 3)
    {17: 2, 19: None, 4711: 0}
    >>> read_label_file(table, 5000, 2)
    Traceback (most recent call last):
    graphtemper.errors.FileError: ..., line 2: class '2' is not an integer from 0 to 1.
    """
    found: dict[int, int | None] = {}
    for place, (node, text) in _rows(Path(path), ("node", "class"), num_nodes):
        if not text:
            continue
        label = None if text == UNKNOWABLE else _integer(text, "class", num_classes, place)
        if found.setdefault(int(node), label) != label:
            raise errors.table(f"{place}: node {node} has another class before.")
    return found


def read_earlier_file(
    path: str | os.PathLike[str], num_nodes: int | None, num_classes: int
) -> NDArray[np.int64]:
    r"""Read earlier labels: the class of each node in the newest period in which it has one.

    The columns are node, class and, if there are several periods, period; digits in it count as
    numbers. Nodes that the table does not have are -1; without ``num_nodes``, it ends at the last.

    Examples
    --------
    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "old.csv"
    >>> _ = table.write_text("node,class,period\n0,1,2026-10\n0,0,2026-9\n2,0,2026-9\n")
    >>> read_earlier_file(table, 4, 2).tolist()
    [1, -1, 0, -1]
    """
    source, known = Path(path), dict[tuple[str, int], int]()
    for place, (node, text, period) in _rows(
        source, ("node", "class", "period"), num_nodes or MOST, 1
    ):
        label = _integer(text, "class", num_classes, place)
        if known.setdefault((period, int(node)), label) != label:
            raise errors.table(f"{place}: node {node} has another class before in the same period.")
    size = max((node for _, node in known), default=-1) + 1 if num_nodes is None else num_nodes
    newest = np.full(size, -1, dtype=np.int64)
    for period, row in sorted(known, key=lambda item: natural_key(item[0])):
        newest[row] = known[period, row]
    return newest


def _rows(
    source: Path, names: Sequence[str], num_nodes: int, optional: int = 0
) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the named cells of every line; the first is a node.

    The last ``optional`` columns may be absent.
    """
    lines = _lines(source)
    _, header = next(lines, (0, []))
    needed = names[: len(names) - optional]
    if any(header.count(name) != 1 for name in needed):
        raise errors.table(f"{source}: the first line must have {' and '.join(needed)}.")
    for number, cells in lines:
        place = f"{source}, line {number}"
        if len(cells) != len(header):
            raise errors.table(f"{place}: there are {len(cells)} columns instead of {len(header)}.")
        found = [cells[header.index(name)] if name in header else "" for name in names]
        _integer(found[0], "node", num_nodes, place)
        yield place, found


def _lines(source: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty lines with their numbers, and cells without surrounding spaces."""
    reader = csv.reader(read_lines(source), strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise errors.table(f"{source}, line {reader.line_num}: {error}.") from error


def _integer(text: str, name: str, end: int, place: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) < end:
        return int(text)
    raise errors.table(f"{place}: {name} {text[:40]!r} is not an integer from 0 to {end - 1}.")
