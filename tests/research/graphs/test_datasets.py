import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

from graphtemper import csbm
from graphtemper.errors import FileError, InputError
from graphtemper.graph.graph import Graph
from graphtemper_research.graphs import datasets


def test_every_graph_of_the_paper_can_be_fetched():
    assert set(datasets.BLOB_IDS) == set(datasets.HETEROPHILOUS) <= set(datasets.CATALOGUE)
    assert all(re.fullmatch("[0-9a-f]{40}", value) for value in datasets.BLOB_IDS.values())
    assert len(set(datasets.BLOB_IDS.values())) == 5


@pytest.mark.parametrize("name", sorted(datasets.CATALOGUE))
def test_a_graph_is_what_the_catalogue_says(name):
    path, entry = datasets.find(name), datasets.CATALOGUE[name]
    if path is None:
        pytest.skip(f"{name}.npz is not on this machine (set GRAPHTEMPER_DATA)")
    summary = datasets.inspect(path)
    for key in ("nodes", "edges", "features", "classes"):
        assert summary[key] == getattr(entry, key)
    assert summary["homophily"] == pytest.approx(entry.homophily, abs=6e-4)
    assert sum(summary["class_shares"]) == pytest.approx(1.0)
    assert summary["degree_mean"] == pytest.approx(2 * entry.edges / entry.nodes)
    assert summary["adjusted_homophily"] < summary["homophily"]
    assert datasets.sha256(Graph.load(path)) == entry.sha256


@pytest.fixture
def upstream(tmp_path, monkeypatch):
    """A graph in the authors' format on a mirror: edges in another order and direction."""
    rng = np.random.default_rng(0)
    graph = csbm.sample(60, 4, 0.8, 1.0, num_features=3, seed=1)
    masks = rng.integers(0, 3, (2, 60))
    parts = {name: masks == k for k, name in enumerate(("train_masks", "val_masks", "test_masks"))}
    edges = graph.edges[rng.permutation(len(graph.edges))][:, ::-1].astype(np.int64)
    arrays = {"node_features": graph.features, "node_labels": graph.labels, "edges": edges}
    path = tmp_path / "mirror" / "minesweeper.npz"
    path.parent.mkdir()
    np.savez(path, **arrays, **parts)
    graph = graph.replace(name="minesweeper", class_names=None, **parts)
    known = replace(datasets.CATALOGUE["minesweeper"], sha256=datasets.sha256(graph))
    monkeypatch.setitem(datasets.CATALOGUE, "minesweeper", known)
    monkeypatch.setitem(datasets.BLOB_IDS, "minesweeper", datasets.git_blob_id(path))
    monkeypatch.setenv("GRAPHTEMPER_MIRROR", path.parent.as_uri())
    monkeypatch.setenv("GRAPHTEMPER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path, graph


def test_a_fetched_graph_is_that_of_the_catalogue(upstream):
    _, graph = upstream
    path = datasets.fetch("minesweeper")
    assert [file.name for file in path.parent.iterdir()] == ["minesweeper.npz"]
    found = Graph.load(path)
    assert (found.features == graph.features).all()
    assert (found.labels == graph.labels).all()
    assert (found.val_masks == graph.val_masks).all()
    assert datasets.inspect("minesweeper")["catalogued"] is True
    found.replace(labels=1 - found.labels).save(path)
    assert datasets.inspect("minesweeper")["catalogued"] is False


def test_another_file_or_graph_is_refused_and_not_kept(upstream, monkeypatch):
    path, _ = upstream
    other = replace(datasets.CATALOGUE["minesweeper"], sha256="0" * 64)
    with monkeypatch.context() as patch:
        patch.setitem(datasets.CATALOGUE, "minesweeper", other)
        with raises("download", match="another graph"):
            datasets.fetch("minesweeper")
    path.write_bytes(path.read_bytes() + b" ")
    with raises("download", match="git blob"):
        datasets.fetch("minesweeper")
    path.unlink()
    with raises("download", match="could not be fetched"):
        datasets.fetch("minesweeper")
    assert datasets.find("minesweeper") is None


def test_which_graphs_have_a_digest():
    unknown = {name for name, entry in datasets.CATALOGUE.items() if not entry.sha256}
    assert unknown == {"roman_empire", "amazon_ratings", "questions"}
    digests = {entry.sha256 for entry in datasets.CATALOGUE.values()} - {""}
    assert len(digests) == len(datasets.CATALOGUE) - 3
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in digests)


def test_natural_families_have_several_environments_with_the_same_columns_and_classes():
    natural = [e for e in datasets.CATALOGUE.values() if e.collection == "natural"]
    assert len(natural) == 45
    families = {entry.family for entry in natural}
    assert len(families) == 6
    for family in families:
        shapes = [(e.features, e.classes) for e in natural if e.family == family]
        assert len(shapes) > 1
        assert len(set(shapes)) == 1


def test_every_graph_is_credited():
    for entry in datasets.CATALOGUE.values():
        assert all((entry.publication, entry.licence, entry.upstream)), entry.name
        assert entry.what.count(" / ") == 2, entry.name


# Published by Platonov et al. (2023), to two digits.
@pytest.mark.parametrize(("name", "published"), [("minesweeper", 0.01), ("tolokers", 0.09)])
def test_adjusted_homophily_is_the_published_one(name, published):
    if datasets.find(name) is None:
        pytest.skip(f"{name}.npz is not on this machine (set GRAPHTEMPER_DATA)")
    assert datasets.inspect(name)["adjusted_homophily"] == pytest.approx(published, abs=0.005)


def test_the_lookup_order(tmp_path, monkeypatch, graph_file):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRAPHTEMPER_DATA", str(tmp_path / "data"))
    assert datasets.folders()[0] == tmp_path / "data"
    assert datasets.folders()[-1] == tmp_path / "home" / "graphtemper"
    path = tmp_path / "data" / "cora.npz"
    path.parent.mkdir()
    path.write_bytes(graph_file.read_bytes())
    assert datasets.find("cora") == path
    assert datasets.fetch("cora") == path
    assert datasets.load("cora").name == "cora"


@pytest.fixture
def graph_file(tmp_path):
    path = tmp_path / "small.npz"
    graph = Graph(
        features=sp.csr_matrix([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0], [3.0, 4.0], [0.0, 0.0]]),
        edges=[[0, 1], [1, 2], [0, 2], [2, 3]],
        labels=[0, 0, 1, -1, 1],
        train_masks=[[True, False, False, False, False], [True, True, False, False, False]],
    )
    graph.save(path)
    return path


def test_inspect_counts_by_hand(graph_file):
    summary = datasets.inspect(str(graph_file))
    assert summary["class_shares"] == [0.5, 0.5]
    assert summary["labelled"] == 4
    # Node 3 has no label, so its edge does not count: 1 of 3 edges joins equals, and the ends are
    # four of class 0 and two of class 1.
    assert summary["homophily"] == pytest.approx(1 / 3)
    chance = (4 / 6) ** 2 + (2 / 6) ** 2
    assert summary["adjusted_homophily"] == pytest.approx((1 / 3 - chance) / (1 - chance))
    assert summary["isolated"] == 1
    assert (summary["degree_mean"], summary["degree_max"]) == (8 / 5, 3)
    assert summary["feature_density"] == 4 / 10
    assert summary["splits"] == {"count": 2, "train": [1, 2]}
    assert summary["path"] == str(graph_file)


def test_homophily_is_none_where_it_is_not_defined():
    graph = Graph(features=np.ones((3, 1)), edges=[[0, 1]])
    assert datasets.describe(graph)["homophily"] is None
    assert datasets.describe(graph)["class_shares"] == []
    unlabelled = graph.replace(labels=[0, -1, 1])
    assert datasets.describe(unlabelled)["homophily"] is None
    one_class = graph.replace(labels=[0, 0, 0])
    assert datasets.describe(one_class)["homophily"] == 1.0
    assert datasets.describe(one_class)["adjusted_homophily"] is None


def test_unknown_and_absent_graphs(monkeypatch):
    monkeypatch.setattr(datasets, "folders", list)
    with raises("choice"):
        datasets.inspect("corra")
    with raises("no-file"):
        datasets.inspect("questions")
    with raises("download"):
        datasets.fetch("cora")
    with raises("no-file"):
        datasets.inspect("nowhere/cora.npz")


def test_graphs_by_name_or_path(tmp_path):
    csbm.sample(60, 4, 0.8, 1.0, seed=1).save(tmp_path / "g.npz")
    assert datasets.load_any(str(tmp_path / "g.npz")).num_nodes == 60
    with pytest.raises(InputError):
        datasets.load_any("nonsense")
    with pytest.raises(FileError):
        datasets.load_any("nowhere.npz")
