"""What identifies a model that is not linear, so that a run resumes only for the same one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper._core.stamps import stamp
from graphtemper.models.predictor import Predictor, predict, probe_graph
from graphtemper.scale.storage.parquet import parquet_files
from graphtemper.scale.storage.shards import ShardedGraph


def module_numbers(
    model: Predictor,
    graph: ShardedGraph,
    hops: int | None,
    logits: str | os.PathLike[str] | None,
) -> list[bytes]:
    """Return what the logits of a model depend on.

    These are its name, its tensors if it wraps a torch module, its logits on a small test graph,
    and how they were made: how far it reads, or the files of given logits.
    """
    name = getattr(model, "__name__", type(model).__name__)
    files = "" if logits is None else stamp(_files(Path(logits))).text
    known = [json.dumps([name, hops, str(logits), files]).encode()]
    state = getattr(getattr(model, "module", None), "state_dict", None)
    if callable(state):
        known += [part for item in sorted(state().items()) for part in _tensor(*item)]
    try:
        known.append(predict(model, probe_graph(graph.num_features)).tobytes())
    except Exception:  # the user's code, which may not run on six nodes
        if not callable(state):  # nothing tells this model from another: no run may resume it
            known.append(os.urandom(16))
    return known


def stated_hops(model: Any, hops: int | None) -> int | None:
    """Return how far a model reads, if the caller or its batches say so."""
    batches = getattr(model, "batches", None)
    return hops if hops is not None or batches is None else max(int(batches.hops), 1)


def _files(path: Path) -> list[Path]:
    return parquet_files(path) if path.is_dir() else [path]


def _tensor(name: str, tensor: Any) -> tuple[bytes, bytes]:
    values = getattr(tensor, "detach", lambda: tensor)()
    if hasattr(values, "double"):
        values = values.cpu().double()
    return name.encode(), np.ascontiguousarray(np.asarray(values)).tobytes()
