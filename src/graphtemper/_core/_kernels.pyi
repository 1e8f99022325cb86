"""Types of the functions in ``_kernels.c``. Arrays are C-contiguous; others raise."""

from typing import Any

VERSION: int

def multiply(
    indptr: Any, indices: Any, values: Any, columns: Any, out: Any, first: int, last: int, /
) -> None: ...
