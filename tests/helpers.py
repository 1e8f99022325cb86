"""What tests of several packages share."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, csbm

# The package that an extra brings, if it is not called like the extra.
EXTRAS = {
    "torch": "pyg",
    "torch_geometric": "pyg",
    "matplotlib": "plots",
    "jinja2": "report",
    "vl_convert": "report",
    "dask": "scale",
    "distributed": "scale",
    "pyarrow": "scale",
    "playwright": "browser",
    "sphinx": "docs",
    "mlflow": "mlflow",
    "graphtemper_research": "research",
}


def needs(module):
    """Import a module that the core does not install, or skip the test or file that needs it."""
    extra = EXTRAS.get(module.partition(".")[0], "test")
    return pytest.importorskip(module, reason=f"{module} is not installed (extra [{extra}])")


def installed(*modules):
    """Return whether all modules can be imported."""
    return all(importlib.util.find_spec(module) for module in modules)


def block_model(
    seed, homophily=0.8, num_nodes=600, *, degree=6, snr=1.0, num_classes=3, num_features=10
):
    """Sample a block model with its features rotated.

    `csbm.sample` puts the class means into the first columns. After the rotation every column
    carries some of them, so that each half of the columns does too.
    """
    graph = csbm.sample(
        num_nodes,
        degree=degree,
        homophily=homophily,
        snr=snr,
        num_classes=num_classes,
        num_features=num_features,
        seed=seed,
    )
    square = np.random.default_rng(7).standard_normal((num_features, num_features))
    rotation = np.linalg.qr(square)[0]
    return graph.replace(features=(graph.features @ rotation).astype(np.float32))


def disjoint_copies(graph, count):
    """Return a graph of ``count`` copies of a graph side by side, without labels."""
    stack = np.vstack if isinstance(graph.features, np.ndarray) else sp.vstack
    starts = np.arange(count)[:, None, None] * graph.num_nodes
    return Graph(
        features=stack([graph.features] * count), edges=(graph.edges + starts).reshape(-1, 2)
    )


def answer_bytes(result):
    """Return everything that a recalibration answers, as bytes."""
    return json.dumps(result.to_dict()).encode() + result.probabilities.tobytes()


def command_environment(**variables):
    """Return the environment of a command: 80 columns, no colours, one thread."""
    plain = {"NO_COLOR": "1", "COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"}
    return os.environ | plain | variables


def run_command(*arguments, cwd=None, **variables):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "graphtemper", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=command_environment(**variables),
    )


def check_refusal(result):
    """Check for one sentence on standard error, no standard output and exit code 2."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("graphtemper: ")
    assert "Traceback" not in result.stderr
