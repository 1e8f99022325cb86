"""Graphs by name or path, with their features as stored or embedded."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph
from graphtemper.errors import InputError
from graphtemper_research.graphs import datasets
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.pairs import Pair


def test_an_embedding_by_name(tmp_path):
    words = sp.random(120, 90, 0.1, format="csr", random_state=0)
    Graph(features=words, edges=[[0, 1]], name="words").save(tmp_path / "words.npz")
    Graph(features=np.eye(120), edges=[[0, 1]]).save(tmp_path / "dense.npz")
    name, dense = str(tmp_path / "words.npz"), str(tmp_path / "dense.npz")
    found = graph_names.load(f"{name}+svd64")
    assert found.features.shape == (120, 64)
    assert isinstance(found.features, np.ndarray)
    # The leading components keep the most of the features that 64 columns can.
    singular = np.linalg.svd(words.toarray(), compute_uv=False)
    assert np.square(found.features).sum() == pytest.approx(np.square(singular[:64]).sum(), 0.01)
    assert (graph_names.load(f"{name}+svd64").features == found.features).all()
    assert graph_names.load(name).num_features == 90
    assert graph_names.present([name, "nowhere.npz"]) == ([name], ["nowhere.npz"])
    with pytest.raises(InputError):
        graph_names.load(f"{dense}+svd64")


def test_no_two_graphs_share_a_name():
    names = list(datasets.CATALOGUE)
    assert "bugs_camel_2.9.0" in names
    assert [graph_names.short(name) for name in names] == names
    assert [graph_names.short(f"data/{name}.npz") for name in names] == names
    assert [Pair("any", "source", name).title for name in names] == names
