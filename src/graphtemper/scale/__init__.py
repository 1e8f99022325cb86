"""Graphs larger than memory, and larger than one machine: shards, bounded memory, Dask.

The mathematics is that of the rest of the package, written as sums over shards. Names are imported
on first use; Dask and pyarrow (extra ``scale``) only where they are needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphtemper.scale.answering import ShardedRecalibration
    from graphtemper.scale.conversion.convert import convert_graph, convert_tables
    from graphtemper.scale.engine import OnDask, Serial, connected
    from graphtemper.scale.logits.confidence_sketch import ConfidenceSketch
    from graphtemper.scale.logits.logit_tables import recalibrate_logits
    from graphtemper.scale.recalibration import recalibrate_shards
    from graphtemper.scale.storage.shards import ShardedGraph

_ROOMS = {
    "ConfidenceSketch": "logits.confidence_sketch",
    "OnDask": "engine",
    "Serial": "engine",
    "ShardedGraph": "storage.shards",
    "ShardedRecalibration": "answering",
    "connected": "engine",
    "convert_graph": "conversion.convert",
    "convert_tables": "conversion.convert",
    "recalibrate_logits": "logits.logit_tables",
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
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
