"""What importing costs, and what the package promises to the outside."""

import subprocess
import sys

import pytest


def loaded_after(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(output.stdout.split())


@pytest.mark.parametrize("statement", ["import graphtemper", "import graphtemper.cli"])
def test_importing_stays_light(statement):
    heavy = {
        "torch",
        "torch_geometric",
        "sklearn",
        "matplotlib",
        "scipy",
        "pandas",
        "dask",
        "pyarrow",
    }
    assert not heavy & loaded_after(statement)


def test_core_does_not_load_torch():
    modules = loaded_after("from graphtemper import Graph, models, theory, csbm, metrics")
    assert not {"torch", "matplotlib"} & modules


def test_a_star_import_needs_no_extra():
    assert not {"torch", "dask", "matplotlib"} & loaded_after("from graphtemper import *")


def test_every_promised_name_is_there():
    import graphtemper

    for name in graphtemper.__all__:
        assert getattr(graphtemper, name) is not None
    with pytest.raises(AttributeError):
        _ = graphtemper.nothing
    with pytest.raises(AttributeError, match=r"graphtemper\.pyg\.predictor"):
        _ = graphtemper.predictor
