"""Graphs and logits in Parquet, of any size, read in passes; one process or Dask.

- `StoredGraph.open` finds the files of a graph, which `graphtemper.recalibrate` takes in place of
  one in memory
- `open_logits` finds logits in parts
- `Serial` and `OnDask` run tasks in this process or on a Dask cluster

Dask and pyarrow (extra ``scale``) are imported only where they are needed.
"""

from __future__ import annotations

from graphtemper.scale.engine import OnDask, Serial, connected
from graphtemper.scale.logit_tables import open_logits
from graphtemper.scale.stored_graph import StoredGraph

__all__ = ["OnDask", "Serial", "StoredGraph", "connected", "open_logits"]
