"""Types of the functions in ``_kernels.c``. Other arrays than those described there raise."""

from typing import Any

VERSION: int

def multiply(
    indptr: Any,
    indices: Any,
    values: Any,
    columns: Any,
    out: Any,
    places: Any,
    first: int,
    last: int,
    /,
) -> None: ...
def link_rows(links: Any, indptr: Any, indices: Any, loops: bool, /) -> None: ...
def scaled_ones(
    indptr: Any,
    indices: Any,
    left: Any,
    values: Any,
    right: Any,
    first: int,
    last: int,
    /,
) -> None: ...
def bin_rows(
    probabilities: Any,
    labels: Any,
    edges: Any,
    count: Any,
    total: Any,
    squares: Any,
    first: int,
    last: int,
    uniform: bool,
    left: bool,
    tolerance: float,
    guard: float,
    /,
) -> int: ...
def nll_sums(
    logits: Any, beta: float, first: int, last: int, /
) -> tuple[float, float, float] | None: ...
def confidence_sums(
    logits: Any, beta: float, first: int, last: int, /
) -> tuple[float, float, float] | None: ...
def summary(
    logits: Any, labels: Any, first: int, last: int, /
) -> tuple[float, float, float, float, float, float] | None: ...
def column_sums(table: Any, out: Any, centre: Any, first: int, last: int, /) -> None: ...
