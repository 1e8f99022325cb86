"""Graphs and logits in Parquet, of any size, read in passes; one process or Dask.

- `StoredGraph.open` finds the files of a graph, which `graphtemper.recalibrate` takes in place of
  one in memory
- `open_logits` finds logits in parts
- `Serial` and `OnDask` run tasks in this process or on a Dask cluster

Dask and pyarrow (extra ``scale``) are imported only where they are needed.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from graphtemper.scale.engine import OnDask, Serial, connected
from graphtemper.scale.logit_tables import open_logits
from graphtemper.scale.stored_graph import StoredGraph

__all__ = ["OnDask", "Serial", "StoredGraph", "connected", "open_logits", "recalibrate"]


def recalibrate(
    logits: Any,
    card: Any,
    out: str | os.PathLike[str],
    *,
    graph: Any = None,
    features: Any = None,
    model: Any = None,
    hops: int | None = None,
    directed: bool = False,
    **options: Any,
) -> Any:
    """Call `graphtemper.recalibrate` on a `StoredGraph`; deprecated, and removed in 0.4.

    ``hops`` is not needed any more: over how many edges a model reads is tested.
    """
    from graphtemper.recalibration.job import recalibrate as job

    said = "use graphtemper.recalibrate(model, StoredGraph.open(nodes, edges), card, logits=, out=)"
    warnings.warn(f"scale.recalibrate is deprecated; {said}.", DeprecationWarning, stacklevel=2)
    stored = None if features is None else StoredGraph.open(features, graph, directed)
    if model is None:
        return job(logits, stored, card, out=out, **options)
    return job(model, stored, card, logits=logits, out=out, **options)
