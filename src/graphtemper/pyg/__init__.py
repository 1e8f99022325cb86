"""Wrap any torch or PyTorch Geometric module as a predictor: ``graph -> logits (N, K)``.

The module gets features and edges, never labels or masks. Every undirected edge is passed once in
each direction, sorted; sparse features are made dense, which takes N x F numbers of memory unless
the graph is run in `Batches`. ``docs/any_model.md`` has examples.
"""

from __future__ import annotations

from graphtemper.errors import require

require("pyg", "graphtemper.pyg", "torch")

from graphtemper.pyg.batches import Batches  # noqa: E402
from graphtemper.pyg.running import Agreement, Returns, frozen  # noqa: E402
from graphtemper.pyg.wrap import Adapter, Predictor, predictor  # noqa: E402

__all__ = ["Adapter", "Agreement", "Batches", "Predictor", "Returns", "frozen", "predictor"]
