"""Arrays of logits on disk: ``.npy``, ``.npz`` and CSV, with one row per node."""

from __future__ import annotations

import warnings
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.files import open_array, read_npz
from graphtemper._core.safe_reading import read_lines
from graphtemper.errors import FileError

ARRAYS = (".npy", ".npz", ".csv")
EXPECTED = ".npy, .npz, .csv or .parquet"
NODE, LOGITS = "node", "logits"


def read_array(path: Path, num_classes: int) -> tuple[NDArray[np.int64] | None, NDArray[Any]]:
    r"""Read logits (N, K) and the numbers of their nodes, None in the order of the graph.

    An ``.npy`` is memory-mapped; an ``.npz`` has the key ``logits``; a CSV may name the nodes.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "logits.csv"
    >>> _ = path.write_text("node,logit_0,logit_1\n1,0.5,-0.5\n0,1.5,2\n")
    >>> nodes, logits = read_array(path, num_classes=2)
    >>> nodes.tolist(), logits.tolist()
    ([1, 0], [[0.5, -0.5], [1.5, 2.0]])
    """
    nodes: NDArray[np.int64] | None = None
    if path.suffix == ".csv":
        nodes, values = _read_csv(path)
    elif path.suffix == ".npz":
        arrays = read_npz(path)
        if LOGITS not in arrays:
            raise errors.damaged(
                f"{path}: key 'logits' is missing; save the array under that name. To read a "
                "graph, name its model with --predict."
            )
        values = arrays[LOGITS]
    elif path.suffix == ".npy":
        values = open_array(path, LOGITS)
    else:
        raise errors.table(f"cannot read logits from {path}; save them as {EXPECTED}.")
    if values.ndim != 2 or values.shape[1] != num_classes:
        raise errors.damaged(
            f"{path}: the logits must have shape (N, {num_classes}), as the card has "
            f"{num_classes} classes, not {values.shape}."
        )
    return nodes, values


def _read_csv(path: Path) -> tuple[NDArray[np.int64] | None, NDArray[Any]]:
    """Read rows of numbers, with or without a header.

    A header names the columns ``logit_0``, ``logit_1``, ... or ``0``, ``1``, ... as pandas does,
    and optionally ``node``, which pandas leaves empty for its index. Without a header every column
    is a logit.
    """
    lines = (line for line in read_lines(path, "the logits") if line.strip())
    first = next(lines, "")
    names = [name.strip().strip('"') for name in first.split(",")]
    header = _is_header(names, path)
    rows = lines if header else chain([first], lines)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file without rows, which is refused below
            table = np.loadtxt(rows, delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        what = str(error).split(";")[0].rstrip(".")
        raise FileError(f"{path} is not a table of numbers: {what}.") from error
    if not (header and names[0] in ("", NODE)):
        return None, table
    nodes = table[:, 0]
    if not ((nodes >= 0) & (nodes < 2**53) & (nodes == np.floor(nodes))).all():
        raise errors.table(f"{path}: the column node must hold indices of nodes.")
    return nodes.astype(np.int64), table[:, 1:]


def _is_header(names: list[str], path: Path) -> bool:
    """Return whether the first row names the columns; other names than expected are refused."""
    logits = names[1:] if names[0] in ("", NODE) else names
    if logits in ([f"logit_{k}" for k in range(len(logits))], [f"{k}" for k in range(len(logits))]):
        return True
    try:
        list(map(float, names))
    except ValueError as error:
        raise errors.table(
            f"{path}, line 1: the columns must be logit_0, logit_1, ... after an optional node, or "
            "numbers without a header."
        ) from error
    return False
