"""Labels of target nodes as a CSV table to fill in: node,class or node,class,weight."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from graphtemper._core.files import atomic_write
from graphtemper._core.safe_reading import read_lines
from graphtemper.errors import FileError
from graphtemper.recalibration.labelling import WEIGHTS, LabelPlan

HEADERS = (["node", "class"], ["node", "class", "weight"])


def write_plan(path: str | os.PathLike[str], plan: LabelPlan) -> None:
    """Write the nodes and weights of a plan, with an empty column for the classes.

    A file that exists may hold labels and is never replaced.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADERS[1])
    for node, weight in zip(plan.nodes.tolist(), plan.weights.tolist(), strict=True):
        writer.writerow([node, "", f"{weight:.17g}"])
    with atomic_write(path, replace=False) as stream:
        stream.write(text.getvalue().encode())


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
    graphtemper.errors.FileError: ..., line 2: class '2' is not an integer from 0 to 1.
    """
    source = Path(path)
    lines = _lines(source)
    _, header = next(lines, (0, []))
    if header not in HEADERS:
        raise FileError(f"{source}: the first line must be node,class or node,class,weight.")
    width = len(header)
    rows: dict[int, tuple[int, float]] = {}
    line_of: dict[int, int] = {}
    for number, cells in lines:
        place = f"{source}, line {number}"
        if len(cells) != width:
            raise FileError(f"{place}: there are {len(cells)} columns instead of {width}.")
        node = _integer(cells[0], "node", num_nodes, place)
        if not cells[1]:
            raise FileError(
                f"{place}: the class of node {node} is missing; fill it in or delete the line."
            )
        row = _integer(cells[1], "class", num_classes, place), _weight(cells[2:], place)
        if rows.setdefault(node, row) != row:
            raise FileError(
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
        raise FileError(f"{source}, line {reader.line_num}: {error}.") from error


def _integer(text: str, name: str, end: int, place: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) < end:
        return int(text)
    raise FileError(f"{place}: {name} {text[:40]!r} is not an integer from 0 to {end - 1}.")


def _weight(cells: list[str], place: str) -> float:
    if not cells:
        return 1.0
    try:
        weight = float(cells[0])
    except ValueError:
        weight = math.nan
    if not WEIGHTS[0] <= weight <= WEIGHTS[1]:
        raise FileError(
            f"{place}: weight {cells[0][:40]!r} is not a positive number of at most "
            f"{WEIGHTS[1]:g}; a weight is the number of nodes that a label represents."
        )
    return weight
