"""What tests of several packages share."""

import importlib.util
import itertools
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, csbm, report
from graphtemper.errors import GraphTemperError, MissingExtraError
from graphtemper.graph.operators import multiply, operator, project
from graphtemper.models import ProjectedPasses

# Modules that only an extra or the research package installs, and the name of it.
EXTRAS = {
    "dask": "scale",
    "distributed": "scale",
    "graphtemper_research": "research",
    "hatchling": "test",
    "jinja2": "report",
    "jsonschema": "test",
    "matplotlib": "plots",
    "networkx": "pyg",
    "playwright": "browser",
    "pyarrow": "scale",
    "relplot": "test",
    "sphinx": "docs",
    "torch": "pyg",
    "torch_geometric": "pyg",
    "torchmetrics": "test",
    "vl_convert": "report",
}
# Modules of the standard library that Windows does not have.
POSIX = ("fcntl", "pty", "resource", "termios")
_REASONS = {
    **{name: f"{name} is not installed (extra [{extra}])" for name, extra in EXTRAS.items()},
    **{name: f"this system has no module {name}" for name in POSIX},
}
# Looked up once, before any test pretends that a module is missing.
MISSING = {name: why for name, why in _REASONS.items() if importlib.util.find_spec(name) is None}


@contextmanager
def raises(expected, match=None):
    """Expect an error: a class, the code of one of the library's errors, or a tuple of these."""
    wanted = expected if isinstance(expected, tuple) else (expected,)
    codes = [item for item in wanted if isinstance(item, str)]
    classes = tuple(item for item in wanted if not isinstance(item, str))
    with pytest.raises((GraphTemperError, *classes) if codes else classes, match=match) as caught:
        yield caught
    assert isinstance(caught.value, classes) or caught.value.code in codes, caught.value


def needs(*modules):
    """Skip the running test, or the file that calls this, where a module is missing."""
    for module in modules:
        if module in MISSING:
            pytest.skip(MISSING[module], allow_module_level=True)


def skip_if_missing(error):
    """Skip if an error comes from a missing module."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            needs(error.name.partition(".")[0])
        if isinstance(error, MissingExtraError):
            needs(
                *(name for name, extra in EXTRAS.items() if f"graphtemper[{extra}]" in str(error))
            )
        error = error.__cause__ or error.__context__


def mostly_nightly(values, keep):
    """Return values to parametrise with, of which those that are not kept run at night."""
    nightly = pytest.mark.nightly
    return [value if keep(value) else pytest.param(value, marks=nightly) for value in values]


def find_graph(name):
    """Return the path of a graph in the folders of GRAPHTEMPER_DATA, or None."""
    folders = os.environ.get("GRAPHTEMPER_DATA", "").split(os.pathsep)
    paths = (Path(folder) / f"{name}.npz" for folder in folders if folder)
    return next((path for path in paths if path.is_file()), None)


def real_graph(name):
    """Load a graph, or skip the running test where this machine does not have it."""
    path = find_graph(name)
    if path is None:
        pytest.skip(f"{name}.npz is not on this machine (set GRAPHTEMPER_DATA)")
    return Graph.load(path).replace(name=name)


# Shifts of a small atlas, for cards that are built in a second.
FEW_SHIFTS = {"noise": (0.6, 1.5), "rewire": (0.2, 0.5), "drop": (0.5,), "mask": (0.4,)}


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


class TwoLayers:
    """A graph convolution, a rectifier and another one, with drawn weights and fast passes."""

    def __init__(self, graph, hidden=6, layers=2):
        rng = np.random.default_rng(0)
        widths = [graph.num_features, *[hidden] * (layers - 1), graph.num_classes]
        self.weights = [
            rng.normal(size=shape).astype(np.float32) for shape in itertools.pairwise(widths)
        ]

    def finish(self, projected, graph):
        matrix = operator(graph, "self-loop")
        signal = multiply(matrix, projected)
        for weights in self.weights[1:]:
            signal = multiply(matrix, project(np.maximum(signal, 0.0), weights))
        return signal

    def fast_passes(self):
        return ProjectedPasses(self.weights[0], self.finish)

    def __call__(self, graph):
        return self.fast_passes().logits(graph)


def disjoint_copies(graph, count):
    """Return a graph of ``count`` copies of a graph side by side, without labels."""
    stack = np.vstack if isinstance(graph.features, np.ndarray) else sp.vstack
    starts = np.arange(count)[:, None, None] * graph.num_nodes
    return Graph(
        features=stack([graph.features] * count), edges=(graph.edges + starts).reshape(-1, 2)
    )


def answering(result, **changed):
    """Return a result whose answer says something else."""
    return replace(result, answer=replace(result.answer, **changed))


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


def run_alone(code, *arguments, **variables):
    """Run code in a process of one thread that inherits nothing but where packages are found."""
    found = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={"OPENBLAS_NUM_THREADS": "1", "PATH": "", **found, **variables},
    )


def check_refusal(result):
    """Check for one sentence on standard error, no standard output and exit code 2."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("graphtemper: ")
    assert "Traceback" not in result.stderr


def schema_errors(answer):
    """Return what is wrong with an answer under its published schema."""
    needs("jsonschema")
    import jsonschema

    validator = jsonschema.Draft202012Validator(report.schema("recalibration"))
    return [error.message for error in validator.iter_errors(answer)]
