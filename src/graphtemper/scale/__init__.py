"""Logits of any number of nodes: streamed, with evidence from a sample; one process or Dask.

- `recalibration`: the one call
- `streaming`: from logits in parts to a temperature, and to probabilities
- `stored_graph`: edges and nodes in Parquet, read in passes
- `evidence`: sums over all nodes, and the model on a sample
- `logits`: logits in parts
- `engine`: tasks in this process or on a Dask cluster

Dask and pyarrow (extra ``scale``) are imported only where they are needed.
"""

from graphtemper.scale.engine import OnDask, Serial, connected
from graphtemper.recalibration.stored import StoredRecalibration, recalibrate
from graphtemper.scale.stored_graph import StoredGraph

__all__ = ["OnDask", "Serial", "StoredGraph", "StoredRecalibration", "connected", "recalibrate"]
