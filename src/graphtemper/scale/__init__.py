"""Graphs larger than memory or than one machine: shards, bounded memory, Dask.

- `storage`: files of sharded graphs and of results
- `conversion`: from graphs and tables to shards
- `engine`: tasks in this process or on a Dask cluster
- `evidence`: signals of logits and features as sums over shards
- `modules`: a model on neighbourhoods that are read from shards
- `streaming`, `answering`: from logits in parts to probabilities and an answer
- `recalibration`: recalibration of a model on a sharded graph
- `logits`: recalibration of stored logits, without the graph and the model

Names are imported on first use, and Dask and pyarrow (extra ``scale``) only where needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphtemper.scale.answering import ShardedRecalibration
    from graphtemper.scale.conversion.convert import convert_graph, convert_tables
    from graphtemper.scale.engine import OnDask, Serial, connected
    from graphtemper.scale.logits.confidence_sketch import ConfidenceSketch
    from graphtemper.scale.logits.recalibration import recalibrate_logits
    from graphtemper.scale.recalibration import recalibrate_shards
    from graphtemper.scale.storage.shards import ShardedGraph

_MODULES = {
    "ConfidenceSketch": "logits.confidence_sketch",
    "OnDask": "engine",
    "Serial": "engine",
    "ShardedGraph": "storage.shards",
    "ShardedRecalibration": "answering",
    "connected": "engine",
    "convert_graph": "conversion.convert",
    "convert_tables": "conversion.convert",
    "recalibrate_logits": "logits.recalibration",
    "recalibrate_shards": "recalibration",
}

__all__ = [
    "ConfidenceSketch",
    "OnDask",
    "Serial",
    "ShardedGraph",
    "ShardedRecalibration",
    "connected",
    "convert_graph",
    "convert_tables",
    "recalibrate_logits",
    "recalibrate_shards",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
