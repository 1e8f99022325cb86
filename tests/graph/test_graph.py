import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphtemper import Graph, csbm
from graphtemper._core.files import atomic_write
from graphtemper.errors import FileError, InputError
from graphtemper.graph.graph import select_nodes


def small(**changes):
    values = {
        "features": np.arange(8.0).reshape(4, 2),
        "edges": [[0, 1], [1, 2], [3, 1]],
        "labels": [0, 1, -1, 1],
        "train_masks": np.array([[True, False, False, True]]),
        "name": "small",
        "class_names": ["yes", "no"],
    }
    return Graph(**(values | changes))


def assert_same(a, b):
    assert type(a.features) is type(b.features)
    difference = a.features != b.features
    assert (difference.nnz if sp.issparse(difference) else difference.sum()) == 0
    for key in ("edges", "labels", "train_masks", "val_masks", "test_masks", "time"):
        left, right = getattr(a, key), getattr(b, key)
        assert (left is None) == (right is None), key
        assert left is None or np.array_equal(left, right), key
    assert (a.name, a.class_names, a.feature_names) == (b.name, b.class_names, b.feature_names)


def test_counts_and_degrees():
    g = small()
    assert (g.num_nodes, g.num_edges, g.num_features, g.num_classes) == (4, 3, 2, 2)
    assert g.degrees.tolist() == [1, 3, 1, 1]
    assert g.edges.tolist() == [[0, 1], [1, 2], [1, 3]]
    assert g.labelled.tolist() == [0, 1, 3]


@pytest.mark.parametrize("sparse", [False, True])
def test_save_and_load_are_inverse(tmp_path, sparse):
    dense = np.array([[0, 1.5], [0, 0], [2, 0], [0, -1]])
    g = small(features=sp.csr_matrix(dense) if sparse else dense, time=[1, 2, 3, 4])
    g.save(tmp_path / "g.npz")
    assert_same(Graph.load(tmp_path / "g.npz"), g)
    assert [p.name for p in tmp_path.iterdir()] == ["g.npz"]


def test_a_graph_cannot_be_edited():
    g = small()
    with pytest.raises(ValueError, match="read-only"):
        g.features[0, 0] = 9
    with pytest.raises(ValueError, match="read-only"):
        g.edges[0, 0] = 2


def test_the_callers_array_stays_writable():
    features = np.zeros((4, 2), np.float32)
    small(features=features)
    features[0, 0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.zeros((0, 2))}, "features is empty"),
        ({"features": np.zeros(4)}, r"features must be a real \(N, F\) array"),
        ({"features": [["a", "b"]] * 4}, "features must be a numeric"),
        ({"features": np.array([[0, 1], [2, np.nan], [0, 0], [0, 0]])}, r"features\[1, 1\] is nan"),
        ({"features": np.full((4, 2), 1e300)}, r"features\[0, 0\] is 1e\+300"),
        ({"features": sp.csr_matrix(np.diag([1, np.inf, 1, 1]))}, r"features\[1, 1\] is inf"),
        ({"edges": [[0, 1, 2]]}, "edges must have shape"),
        ({"edges": [[0.0, 1.0]]}, "edges must be integers"),
        ({"edges": [[0, 1], [1, 4]]}, r"edges\[1, 1\] is 4, outside the nodes 0..3"),
        ({"edges": [[-1, 1]]}, r"edges\[0, 0\] is -1"),
        ({"edges": [[0, 10**9]]}, r"edges\[0, 1\] is 1000000000"),
        ({"edges": [[0, 1], [2, 2]]}, r"edges\[1\] is a self-loop at node 2"),
        ({"edges": [[0, 1], [1, 2], [1, 0]]}, r"edges\[2\] repeats the edge 0-1"),
        ({"labels": [0, 1]}, r"labels must have shape \(4,\)"),
        ({"labels": [0, 1, -2, 0]}, r"labels\[2\] is -2"),
        ({"labels": [0, 1, 99, 0]}, r"labels\[2\] is 99"),
        ({"labels": [0.0, 1.0, 0.0, 1.0]}, "labels must be integers"),
        ({"train_masks": [[True, False]]}, r"train_masks must have shape \(S, 4\)"),
        ({"val_masks": [[0, 1, 1, 0]]}, "val_masks must be boolean"),
        ({"feature_names": ["one"]}, "feature_names has 1 entries for 2 columns"),
        ({"features": [[1.0, 2.0], [1.0]]}, "features cannot be read as an array"),
        ({"features": np.ones((4, 2), complex)}, "features must be .* real numbers, not complex"),
        ({"features": sp.csr_matrix(np.ones((4, 2), complex))}, "real numbers, not complex"),
        ({"features": sp.coo_array(np.ones(4))}, r"\(N, F\) array, but has shape \(4,\)"),
        ({"features": [["1", "2"]] * 4}, "features must be a numeric"),
        ({"edges": [[0, 1], [1]]}, "edges cannot be read as an array"),
        ({"labels": [[0], [1, 2], 0, 0]}, "labels cannot be read as an array"),
        ({"labels": np.array([2**64 - 1, 0, 0, 0], np.uint64)}, r"labels\[0\] is 184467.*int64"),
        ({"train_masks": [[True], [True, False]]}, "train_masks cannot be read as an array"),
        ({"class_names": 3}, "class_names must be a list of names, not int"),
        ({"class_names": "yes"}, "class_names must be a list of names, not str"),
        ({"class_names": np.array(3)}, "class_names must be a list of names"),
        ({"class_names": ["a"]}, r"labels\[1\] is 1, which has no name: class_names has 1 entries"),
        ({"class_names": []}, r"labels\[0\] is 0, which has no name"),
    ],
)
def test_bad_arrays_name_the_key_and_the_first_bad_entry(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        small(**changes)
    assert "\n" not in str(caught.value)


def test_one_node_and_no_edges_are_graphs():
    g = Graph(features=[[1.0]], edges=[])
    assert (g.num_nodes, g.num_edges, g.num_classes) == (1, 0, 0)
    assert g.degrees.tolist() == [0]


def test_replace_checks_what_changed():
    g = small()
    assert g.replace(labels=None).labels is None
    assert g.replace(edges=[[2, 0]]).edges.tolist() == [[0, 2]]
    with pytest.raises(InputError, match="self-loop"):
        g.replace(edges=[[2, 2]])
    with pytest.raises(InputError, match="3 rows"):
        g.replace(features=np.zeros((3, 2)))
    with pytest.raises(InputError, match="no field 'weight'"):
        g.replace(weight=1)
    with pytest.raises(InputError, match=r"but has shape \(\)"):
        g.replace(features=1.0)
    with pytest.raises(InputError, match="features cannot be read as an array"):
        g.replace(features=[[1.0], [1.0, 2.0]])
    with pytest.raises(InputError, match=r"labels\[3\] is 2, which has no name"):
        g.replace(labels=[0, 1, -1, 2])
    with pytest.raises(InputError, match=r"labels\[1\] is 1, which has no name"):
        g.replace(class_names=("only",))
    assert g.replace(labels=[0, 1, -1, 2], class_names=None).num_classes == 3


def test_replace_keeps_no_stale_column_names():
    g = small(feature_names=["left", "right"])
    assert g.replace(features=np.ones((4, 2))).feature_names == ("left", "right")
    with pytest.raises(InputError, match="features has 1 columns but the graph names 2"):
        g.replace(features=np.ones((4, 1)))
    assert g.replace(features=np.ones((4, 1)), feature_names=["one"]).feature_names == ("one",)
    assert g.replace(features=np.ones((4, 1)), feature_names=None).feature_names is None


def test_names_may_come_from_any_iterable():
    assert small(class_names=np.array(["a", "b"])).class_names == ("a", "b")
    assert small(class_names=(name for name in "ab")).class_names == ("a", "b")


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40))
@settings(max_examples=50, deadline=None)
def test_from_edges_cleans_any_list(pairs):
    g = Graph.from_edges(np.zeros((7, 1)), np.array(pairs, dtype=int).reshape(-1, 2))
    assert {frozenset(e) for e in g.edges.tolist()} == {frozenset(p) for p in pairs if p[0] != p[1]}
    assert len(set(map(tuple, g.edges.tolist()))) == g.num_edges


def archive(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


GOOD = {"features": np.zeros((3, 2), np.float32), "edges": np.array([[0, 1]])}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"PK\x03\x04 not really a zip", "damaged"),
        (archive(**GOOD)[:-40], "damaged"),
        (archive(edges=GOOD["edges"]), "key 'features' is missing"),
        (archive(features=GOOD["features"]), "key 'edges' is missing"),
        (archive(features=np.array([{}], dtype=object), edges=GOOD["edges"]), "Python objects"),
        (archive(**(GOOD | {"edges": np.array([[0, 7]])})), r"edges\[0, 1\] is 7"),
        (archive(**GOOD, labels=np.array([0, 1])), "labels must have shape"),
        (
            archive(
                edges=GOOD["edges"],
                features_data=np.ones(1),
                features_indices=np.array([5]),
                features_indptr=np.array([0, 1, 1, 1]),
                features_shape=np.array([3, 2]),
            ),
            r"features_indices\[0\] is 5",
        ),
        (
            archive(
                edges=GOOD["edges"],
                features_data=np.ones(1),
                features_indices=np.array([0]),
                features_indptr=np.array([0, 2, 1, 1]),
                features_shape=np.array([3, 2]),
            ),
            r"features_indptr\[2\] is smaller",
        ),
        (
            archive(
                edges=GOOD["edges"],
                features_data=np.ones(1),
                features_indices=np.array([0]),
                features_indptr=np.array([0, 2, 1, 1], np.uint64),
                features_shape=np.array([3, 2]),
            ),
            r"features_indptr\[2\] is smaller",
        ),
        (
            archive(
                edges=GOOD["edges"],
                features_data=np.array(["a"]),
                features_indices=np.array([0]),
                features_indptr=np.array([0, 1, 1, 1]),
                features_shape=np.array([3, 2]),
            ),
            "features_data must hold real numbers",
        ),
        (
            archive(**GOOD, labels=np.array([0, 1, 0]), class_names=np.array(["a"])),
            r"labels\[1\] is 1, which has no name",
        ),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, content, message):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message) as caught:
        Graph.load(path)
    assert "bad.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_header_that_claims_too_much_is_refused_before_allocation(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 4)}
    )
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w") as bomb:
        bomb.writestr("features.npy", stream.getvalue() + b"\0" * 64)
    with pytest.raises(FileError, match="claims 16000000000000 bytes"):
        Graph.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match=r"nowhere\.npz does not exist"):
        Graph.load(tmp_path / "nowhere.npz")


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as stream:  # noqa: PT012
        stream.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([True, False], "the node mask has 2 entries"),
        ([0, 4], r"nodes\[1\] is 4"),
        ([0.5], "boolean mask or integer"),
        ([], "no node is selected"),
        ([False] * 4, "no node is selected"),
        ([[0]], "one-dimensional"),
        ([0, [1]], "nodes cannot be read as an array"),
    ],
)
def test_bad_node_selections(nodes, message):
    with pytest.raises(InputError, match=message):
        select_nodes(nodes, 4)


def test_a_subgraph_keeps_what_is_between_its_nodes():
    graph = csbm.sample(200, 6, 0.8, 1.5, num_features=5, seed=3).replace(
        time=np.arange(200), class_names=("no", "yes"), val_masks=np.arange(200) % 3 == 0
    )
    nodes = np.random.default_rng(0).choice(200, 60, replace=False)
    part = graph.subgraph(nodes)
    inside = {int(node): place for place, node in enumerate(nodes)}
    expected = {
        tuple(sorted((inside[a], inside[b])))
        for a, b in graph.edges.tolist()
        if a in inside and b in inside
    }
    assert {tuple(edge) for edge in part.edges.tolist()} == expected
    assert (part.features == graph.features[nodes]).all()
    assert (part.labels == graph.labels[nodes]).all()
    assert part.time.tolist() == nodes.tolist()
    assert part.class_names == ("no", "yes")
    assert part.val_masks.tolist() == [(nodes % 3 == 0).tolist()]
    mask = np.isin(np.arange(200), nodes)
    assert graph.subgraph(mask).time.tolist() == sorted(nodes.tolist())
    sparse = graph.replace(features=sp.csr_matrix(graph.features))
    assert (sparse.subgraph(nodes).features != sp.csr_matrix(part.features)).nnz == 0


def test_a_node_is_selected_once():
    with pytest.raises(InputError, match="node 2 is selected twice"):
        small().subgraph([2, 1, 2])


def test_a_graph_describes_itself_briefly():
    g = csbm.sample(500, degree=6, homophily=0.8, snr=1.0, num_features=5, seed=3)
    shown = repr(
        g.replace(name="x" * 1000, time=np.arange(500), val_masks=np.eye(9, 500, dtype=bool))
    )
    assert len(shown) < 400
    assert "\n" not in shown
    facts = ("nodes=500", f"edges={g.num_edges}", "5, dense", "classes=2", "9 (val)", "0 to 499")
    for fact in facts:
        assert fact in shown
    assert "sparse (0.25 filled)" in repr(small(features=sp.csr_matrix(np.eye(4, 2))))
    page = g.replace(name="<b>&")._repr_html_()
    assert "&lt;b&gt;&amp;" in page
    assert len(page) < 1500
    assert repr(Graph(features=[[1.0]], edges=[])) == (
        "Graph(nodes=1, edges=0, features='1, dense', degree=0.0)"
    )


def test_pyg_round_trip():
    pytest.importorskip("torch_geometric")
    g = small(val_masks=np.eye(3, 4, dtype=bool))
    data = g.to_pyg()
    assert data.is_undirected()
    assert data.num_edges == 2 * g.num_edges
    back = Graph.from_pyg(data)
    assert_same(back.replace(name=g.name, class_names=g.class_names), g)


def test_from_pyg_merges_directions_loops_and_duplicates_on_request():
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    data = Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0, 1, 2, 2, 0], [1, 0, 1, 2, 1]]))
    dropped = ("direction", "self_loops", "multi_edges")
    assert Graph.from_pyg(data, drop=dropped).edges.tolist() == [[0, 1], [1, 2]]
    assert Graph.from_pyg(data, drop="all").edges.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(InputError, match="needs both x and edge_index"):
        Graph.from_pyg(Data(edge_index=data.edge_index))


def test_every_shared_graph_loads(shared_graph_path):
    g = Graph.load(shared_graph_path)
    assert g.num_classes >= 2
    assert g.labels is not None
    assert g.labelled.size > 0
