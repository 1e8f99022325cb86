"""Logits of any number of nodes: streamed, with evidence from a sample; one process or Dask.

- `recalibration`: the one call
- `streaming`: from logits in parts to a temperature, and to probabilities
- `stored_graph`: edges and nodes in Parquet, read in passes
- `evidence`: sums over all nodes, and the model on a sample
- `logits`: the readers of logits
- `engine`: tasks in this process or on a Dask cluster

Names are imported on first use, and Dask and pyarrow (extra ``scale``) only where needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphtemper.scale.answering import StoredRecalibration
    from graphtemper.scale.engine import OnDask, Serial, connected
    from graphtemper.scale.recalibration import recalibrate
    from graphtemper.scale.stored_graph import StoredGraph

_MODULES = {
    "OnDask": "engine",
    "Serial": "engine",
    "StoredGraph": "stored_graph",
    "StoredRecalibration": "answering",
    "connected": "engine",
    "recalibrate": "recalibration",
}

__all__ = [
    "OnDask",
    "Serial",
    "StoredGraph",
    "StoredRecalibration",
    "connected",
    "recalibrate",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
