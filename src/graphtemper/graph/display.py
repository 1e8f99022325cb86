"""How a graph is displayed in a console and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from graphtemper.graph.attributes import EDGE_FIELDS

_LONGEST_NAME = 40


def as_string(fields: Mapping[str, Any]) -> str:
    """Return one line about the fields of a `Graph`, under 400 characters.

    Examples
    --------
    >>> from graphtemper import Graph
    >>> Graph(features=[[1.0], [0.0]], edges=[[0, 1]], labels=[0, -1], name="pair")
    Graph(name='pair', nodes=2, edges=1, features='1, dense', classes=1, labelled=1, degree=1.0)
    """
    listed = ", ".join(f"{key}={value!r}" for key, value in _facts(fields).items())
    return f"Graph({listed})"


def as_html(fields: Mapping[str, Any]) -> str:
    """Return a small table about the fields of a `Graph`."""
    rows = ""
    for key, value in _facts(fields).items():
        words = f"{value:,}" if isinstance(value, int) else str(value)
        rows += f"<tr><th style='text-align:left'>{key}</th><td>{escape(words)}</td></tr>"
    return f"<table><caption>Graph</caption>{rows}</table>"


def _facts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return sizes, storage, labels, mean degree, splits and times of a graph."""
    features, labels, names = fields["features"], fields["labels"], fields["class_names"]
    num_nodes, num_edges = int(features.shape[0]), len(fields["edges"])
    storage = "dense"
    if not isinstance(features, np.ndarray):
        storage = f"sparse ({features.nnz / (features.shape[0] * features.shape[1]):.2g} filled)"
    name = fields["name"]
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 3] + "..."
    facts: dict[str, Any] = {"name": name} if name else {}
    facts |= {"nodes": num_nodes, "edges": num_edges}
    facts["features"] = f"{features.shape[1]}, {storage}"
    if names is not None or labels is not None:
        largest = -1 if labels is None else int(labels.max(initial=-1))
        facts["classes"] = largest + 1 if names is None else len(names)
    if labels is not None:
        facts["labelled"] = int((labels >= 0).sum())
    if fields["directed"]:
        facts["directed"] = True
    else:
        facts["degree"] = round(2 * num_edges / num_nodes, 1)
    carried = [key for key in (*EDGE_FIELDS, "node_type") if fields[key] is not None]
    if carried:
        facts["attributes"] = ", ".join(carried)
    splits = {
        key.removesuffix("_masks"): len(fields[key])
        for key in ("train_masks", "val_masks", "test_masks")
        if fields[key] is not None
    }
    if splits:
        facts["splits"] = f"{max(splits.values())} ({', '.join(splits)})"
    if fields["time"] is not None:
        facts["time"] = f"{fields['time'].min()} to {fields['time'].max()}"
    if fields["environment"] is not None:
        known = fields["environment"][fields["environment"] >= 0]
        facts["environments"] = int(np.unique(known).size)
    return facts
