"""Labels of a target: which nodes to label, and checks of the labels that come back.

A plan is written as a CSV table to fill in, with the columns node,class,weight.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray, check_integer
from graphtemper._core.files import atomic_write
from graphtemper._core.reproducible import stream
from graphtemper._core.safe_reading import read_lines
from graphtemper.errors import (
    ForeignError,
    RangeError,
    RepeatedError,
    ShapeError,
    TableError,
    WrongTypeError,
)
from graphtemper.recalibration.few_labels import Labels
from graphtemper.recalibration.result import Recalibration

if TYPE_CHECKING:
    from pandas import Series

LabelsGiven: TypeAlias = "Mapping[int, int] | Series[int]"
"""Labels of the target: ``{node: class}``, or a pandas ``Series`` of classes indexed by node."""
# A weight is a number of nodes, up to a factor; sums and squares of these are finite.
WEIGHTS = 1e-12, 1e12
HEADERS = (["node", "class"], ["node", "class", "weight"])


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """Nodes to label, and the number of nodes that each of them represents.

    Attributes
    ----------
    nodes : (m,) array
        Node indices in the graph.
    weights : (m,) array
        The inverse probability with which each was drawn; from `suggest_labels` they sum to the
        number of nodes.
    known
        Number of nodes, at the front, that an earlier round has chosen.
    """

    nodes: NDArray[np.int64]
    weights: FloatArray
    known: int = 0

    @property
    def new_nodes(self) -> NDArray[np.int64]:
        """The nodes that this round adds."""
        return self.nodes[self.known :]


def suggest_labels(
    result: Recalibration, count: int, seed: int = 0, *, previous: LabelPlan | None = None
) -> LabelPlan:
    r"""Pick ``count`` nodes to label, spread over the model's confidence.

    The nodes are sorted by confidence (ties in random order) and cut into ``count`` strata as equal
    as possible; one node of each is drawn at random and represents the :math:`N_h` of its stratum.
    Every node can be drawn and :math:`\sum_h N_h` is the number of nodes N, so that for any
    function r of a node and its label, such as whether the prediction is right,

    .. math:: \frac1N \sum_h N_h\, r_h

    has the mean over all nodes as its expectation, and less variance than as many nodes drawn
    at random.

    With a ``previous`` plan, the nodes come from those that it does not hold, and the plan returned
    holds both rounds. The weights are those of :math:`\lambda E_1 + (1 - \lambda) E_2`, where
    :math:`E_1` is the mean by the previous plan, :math:`E_2` the one that counts its nodes once and
    estimates the rest from the new ones, and :math:`\lambda` the fraction of nodes of the previous
    plan: the expectation stays the mean over all nodes. Whether another round is worth it is said
    by the reason ``labels_used`` of a result with labels.

    Parameters
    ----------
    result
        From `recalibrate`, with or without labels.
    count
        Number of nodes to pick, at most those of the result that are not picked yet.
    seed
        The same seed picks the same nodes.
    previous
        The plan of the rounds before.

    Returns
    -------
    LabelPlan
        To pass to ``recalibrate(..., labels={node: class, ...}, plan=plan)``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> p = np.linspace(0.5, 1.0, 10)
    >>> result = SimpleNamespace(probabilities=np.column_stack([p, 1 - p]), nodes=np.arange(10))
    >>> plan = suggest_labels(result, 3)
    >>> plan.weights.tolist()
    [4.0, 3.0, 3.0]
    >>> [node // 3.4 for node in plan.nodes.tolist()]  # one of each stratum
    [0.0, 1.0, 2.0]
    >>> more = suggest_labels(result, 3, previous=plan)
    >>> len(set(more.nodes.tolist())), more.new_nodes.size, float(more.weights.sum())
    (6, 3, 10.0)
    """
    if not hasattr(result, "probabilities"):
        raise WrongTypeError(
            f"suggest_labels takes the result of recalibrate, not a {type(result).__name__}."
        )
    nodes, rows = np.asarray(result.nodes), np.arange(len(result.probabilities))
    before = 0
    if previous is not None:
        taken = _weights(previous)
        before = len(taken)
        absent = sorted(taken.keys() - set(nodes.tolist()))
        if absent:
            raise ForeignError(
                f"the previous plan has node {absent[0]}, which is not among the nodes of the "
                "result; plan the rounds of one set of nodes together."
            )
        rows = rows[~np.isin(nodes, previous.nodes)]
    check_integer(count, "count", 1, rows.size)
    rng = stream(seed, "suggest_labels" if previous is None else f"suggest_labels {before}")
    order = rows[rng.permutation(rows.size)]
    order = order[np.argsort(result.probabilities.max(axis=1)[order], kind="stable")]
    strata = np.array_split(order, count)
    picked = nodes[[stratum[rng.integers(stratum.size)] for stratum in strata]]
    weights = np.array([float(stratum.size) for stratum in strata])
    if previous is None:
        return LabelPlan(picked, weights)
    share = before / (before + count)
    old = share * np.asarray(previous.weights) + (1.0 - share)
    both = np.concatenate([old, (1.0 - share) * weights])
    return LabelPlan(np.concatenate([previous.nodes, picked]), both, before)


def read_labels(
    labels: LabelsGiven | None,
    plan: LabelPlan | None,
    nodes: NDArray[np.int64],
    num_nodes: int,
    num_classes: int,
) -> Labels:
    """Check labels against the graph, the chosen nodes and the classes.

    Parameters
    ----------
    labels
        Class of each labelled node, as a mapping or a pandas ``Series`` indexed by node; None and
        {} mean no labels.
    plan
        The plan that the nodes come from, if `suggest_labels` chose them.
    nodes
        The chosen nodes, whose rows the result refers to.
    num_nodes, num_classes
        Number of nodes of the graph and of classes of the model.

    Examples
    --------
    >>> read_labels({7: 1}, None, np.array([5, 7]), 10, 2).rows.tolist()
    [1]
    >>> read_labels({6: 1}, None, np.array([5, 7]), 10, 2)
    Traceback (most recent call last):
    graphtemper.errors.ForeignError: labels name node 6, which is not among the chosen nodes; ...
    """
    if labels is None:
        labels = {}
    pairs = _pairs(labels)
    weight = None if plan is None else _weights(plan)
    row = {int(node): k for k, node in reversed(list(enumerate(nodes)))} if pairs else {}
    rows, classes, weights = [], [], []
    for key, value in pairs:
        node = check_integer(key, "a node in labels", 0, num_nodes - 1)
        if node not in row:
            raise ForeignError(
                f"labels name node {node}, which is not among the chosen nodes; choose it with "
                "`nodes`, or leave its label out."
            )
        if weight is not None and node not in weight:
            raise ForeignError(
                f"labels name node {node}, which is not in the plan; leave its label out, or pass "
                "the labels without a plan if their nodes were drawn at random."
            )
        rows.append(row[node])
        classes.append(check_integer(value, f"the label of node {node}", 0, num_classes - 1))
        weights.append(1.0 if weight is None else weight[node])
    return Labels(np.array(rows, np.int64), np.array(classes, np.int64), np.array(weights))


def _pairs(labels: Any) -> list[tuple[int, int]]:
    """Return nodes and classes of a mapping, or of anything with an index and items, as pandas has.

    Examples
    --------
    >>> _pairs({17: 2})
    [(17, 2)]
    """
    if isinstance(labels, Mapping):
        return list(labels.items())
    if not (hasattr(labels, "index") and callable(getattr(labels, "items", None))):
        raise WrongTypeError(
            "labels must map nodes to classes, as in {17: 2} or a Series indexed by node, not a "
            f"{type(labels).__name__}."
        )
    if getattr(labels, "ndim", 1) != 1:
        raise ShapeError("labels is a table; pass its column of classes, indexed by node.")
    pairs = list(labels.items())
    if len({key for key, _ in pairs}) < len(pairs):
        raise RepeatedError("labels name a node twice; keep one label per node.")
    return pairs


def _weights(plan: LabelPlan) -> dict[int, float]:
    if not isinstance(plan, LabelPlan):
        raise WrongTypeError(
            f"plan must be a LabelPlan, as suggest_labels gives it, not a {type(plan).__name__}."
        )
    nodes, weights = np.asarray(plan.nodes), np.asarray(plan.weights, dtype=np.float64)
    if nodes.ndim != 1 or nodes.shape != weights.shape:
        raise ShapeError(
            f"the plan has nodes of shape {nodes.shape} and weights of shape {weights.shape}; "
            "it needs one weight per node."
        )
    least, most = WEIGHTS
    bad = np.flatnonzero(~((weights >= least) & (weights <= most)))
    if bad.size:
        raise RangeError(
            f"the plan's weight of node {nodes[bad[0]]} is {weights[bad[0]]}; it must be positive "
            f"and at most {most:g}, the number of nodes that a label represents."
        )
    return dict(zip(nodes.tolist(), weights.tolist(), strict=True))


def write_plan(path: str | os.PathLike[str], plan: LabelPlan) -> None:
    """Write the nodes and weights of a plan, with an empty column for the classes.

    A file that exists may hold labels and is never replaced.
    """
    pairs = zip(plan.nodes.tolist(), plan.weights.tolist(), strict=True)
    with atomic_write(path, replace=False) as stream:
        stream.write(b"node,class,weight\n")
        stream.writelines(f"{node},,{weight:.17g}\n".encode() for node, weight in pairs)


def read_label_file(
    path: str | os.PathLike[str], num_nodes: int, num_classes: int
) -> tuple[dict[int, int], LabelPlan | None]:
    r"""Read labels, and the plan they come from if the table has weights.

    The first line must be ``node,class`` or ``node,class,weight``. Empty lines are skipped, and a
    line that repeats another counts once.

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
    >>> _ = table.write_text("node,class\n17,2\n4711,0\n")
    >>> read_label_file(table, 5000, 3)
    ({17: 2, 4711: 0}, None)
    >>> read_label_file(table, 5000, 2)
    Traceback (most recent call last):
    graphtemper.errors.TableError: ..., line 2: class '2' is not an integer from 0 to 1.
    """
    source = Path(path)
    lines = _lines(source)
    _, header = next(lines, (0, []))
    if header not in HEADERS:
        raise TableError(f"{source}: the first line must be node,class or node,class,weight.")
    width = len(header)
    rows: dict[int, tuple[int, float]] = {}
    line_of: dict[int, int] = {}
    for number, cells in lines:
        place = f"{source}, line {number}"
        if len(cells) != width:
            raise TableError(f"{place}: there are {len(cells)} columns instead of {width}.")
        node = _integer(cells[0], "node", num_nodes, place)
        if not cells[1]:
            raise TableError(
                f"{place}: the class of node {node} is missing; fill it in or delete the line."
            )
        weight = 1.0 if width == 2 else _weight(cells[2], place)
        row = _integer(cells[1], "class", num_classes, place), weight
        if rows.setdefault(node, row) != row:
            raise TableError(
                f"{place}: node {node} has another class or weight on line {line_of[node]}."
            )
        line_of.setdefault(node, number)
    labels = {node: label for node, (label, _) in rows.items()}
    if width == 2:
        return labels, None
    weights = np.array([weight for _, weight in rows.values()], dtype=np.float64)
    return labels, LabelPlan(np.array(list(rows), dtype=np.int64), weights)


def _lines(source: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty lines with their numbers, and cells without surrounding spaces."""
    reader = csv.reader(read_lines(source), strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise TableError(f"{source}, line {reader.line_num}: {error}.") from error


def _integer(text: str, name: str, end: int, place: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) < end:
        return int(text)
    raise TableError(f"{place}: {name} {text[:40]!r} is not an integer from 0 to {end - 1}.")


def _weight(text: str, place: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if WEIGHTS[0] <= weight <= WEIGHTS[1]:
        return weight
    raise TableError(
        f"{place}: weight {text[:40]!r} is not a positive number of at most {WEIGHTS[1]:g}; a "
        "weight is the number of nodes that a label represents."
    )
