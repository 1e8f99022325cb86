"""The fixtures of the library's calibrators."""

from tests.calibrators.conftest import (
    finite_differences,
    graph,
    model,
    observation,
    sample,
    target,
    threshold,
    with_weights,
)

__all__ = [
    "finite_differences",
    "graph",
    "model",
    "observation",
    "sample",
    "target",
    "threshold",
    "with_weights",
]
