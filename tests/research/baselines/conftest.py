"""The fixtures of the library's calibrators."""

from tests.calibrators.conftest import (
    graph,
    model,
    observation,
    target,
    threshold,
    with_weights,
)

__all__ = ["graph", "model", "observation", "target", "threshold", "with_weights"]
