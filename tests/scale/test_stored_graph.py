"""The fields of a stored graph are those of the graph in memory, whatever its edges have."""

import numpy as np
import pytest
from tests.helpers import TwoLayers, raises

from graphtemper import Graph, csbm
from graphtemper.models import SIGN
from graphtemper.models.predictor import predict
from graphtemper.scale import Serial, StoredGraph
from graphtemper.scale.parquet import parquet_files
from graphtemper.scale.stored_graph import StoredWhole, load, moments_of, some_links
from graphtemper.signals.graph_parts import Field, Reach
from graphtemper.signals.sample import layers

from .conftest import pa, pq, save, stored

torch = pytest.importorskip("torch")
nn = pytest.importorskip("torch_geometric.nn")
predictor = pytest.importorskip("graphtemper.pyg").predictor

NODES = np.array([3, 50, 171])


def drawn(seed=0):
    return csbm.sample(300, 4, 0.7, snr=1.0, num_classes=3, num_features=5, seed=seed)


def opened(graph, folder, **options):
    tables = stored(graph, np.zeros((graph.num_nodes, 3)), folder, **options)
    return StoredGraph.open(tables["features"], tables["graph"], graph.directed)


def attributed(kind):
    graph, rng = drawn(), np.random.default_rng(1)
    fields = {
        "weighted": {"edge_weight": rng.uniform(0.5, 2.0, graph.num_edges).astype(np.float32)},
        "attributed": {"edge_features": rng.standard_normal((graph.num_edges, 2))},
        "typed": {"edge_type": rng.integers(0, 3, graph.num_edges)},
    }
    return graph.replace(**fields.get(kind, {}), directed=kind == "directed")


def sage():
    torch.manual_seed(0)
    return predictor(nn.models.GraphSAGE(5, 8, 2, 3).eval())


@pytest.mark.parametrize("kind", ["plain", "weighted", "attributed", "typed", "directed"])
def test_a_loaded_graph_is_the_one_in_memory(kind, tmp_path):
    graph = attributed(kind)
    found = load(Serial(), opened(graph, tmp_path, order=np.random.default_rng(0).permutation(300)))
    np.testing.assert_array_equal(found.features, graph.features)
    order, other = (np.lexsort(item.edges.T[::-1]) for item in (found, graph))
    np.testing.assert_array_equal(found.edges[order], graph.edges[other])
    for name in ("edge_weight", "edge_features", "edge_type"):
        values = getattr(graph, name)
        if values is not None:
            np.testing.assert_array_equal(getattr(found, name)[order], values[other])
    assert found.directed == graph.directed


MODELS = {
    "SAGE": (sage, "plain", Reach(2, False)),
    "SAGE of ordered pairs": (sage, "directed", Reach(2, False)),
    "SIGN": (lambda: SIGN(hops=2, operator="mean").fit(drawn(1)), "plain", Reach(2, False)),
    "GCN, by empty nodes": (lambda: TwoLayers(drawn(1)), "plain", Reach(2, True)),
    "GCN, by one step more": (lambda: TwoLayers(drawn(1)), "plain", Reach(3, False)),
    "with weights": (lambda: SIGN(hops=2).fit(drawn(1)), "weighted", Reach(3, False)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_same_logits_on_fields(name, tmp_path):
    make, kind, reach = MODELS[name]
    model, graph = make(), attributed(kind)
    whole = StoredWhole(opened(graph, tmp_path), Serial())
    field = Field.of(whole, NODES, reach)
    assert field.graph.num_nodes < graph.num_nodes or reach.padded
    found = predict(model, field.graph)[field.rows(NODES)]
    np.testing.assert_allclose(found, predict(model, graph)[NODES], rtol=2e-5, atol=2e-5)


def test_a_pair_that_is_stored_twice_is_one_link(tmp_path):
    graph = drawn()
    both = np.vstack([graph.edges, graph.edges[:, ::-1], [[7, 7]]])
    save(tmp_path / "twice", {"src": both[:, 0], "dst": both[:, 1]}, parts=4)
    nodes = opened(graph, tmp_path / "once").nodes.files[0].parent
    whole = StoredWhole(StoredGraph.open(nodes, tmp_path / "twice"), Serial())
    near, indptr = whole.near(np.arange(300))
    np.testing.assert_array_equal(np.diff(indptr), graph.degrees)
    linked = graph.links[(graph.links == 7).any(axis=1)]
    assert set(near[indptr[7] : indptr[8]]) == {*linked.ravel()} - {7}
    order = np.lexsort(graph.edges.T[::-1])
    np.testing.assert_array_equal(load(Serial(), whole.stored).edges, graph.edges[order])


def test_what_is_known_of_all_nodes(tmp_path):
    graph = drawn()
    found = opened(graph, tmp_path, order=np.random.default_rng(0).permutation(300))
    moments = moments_of(Serial(), found)
    np.testing.assert_allclose(moments[0], graph.features.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(moments[1], graph.features.std(axis=0), rtol=1e-6)


def test_links_of_all_are_each_taken_once(tmp_path):
    """Also where a pair is stored in both directions, of which memory keeps one."""
    graph = drawn()
    both = np.vstack([graph.edges, graph.edges[:100, ::-1], [[7, 7]]])
    save(tmp_path / "e", {"source": both[:, 0], "target": both[:, 1]}, parts=4)
    save(tmp_path / "n", {"x": np.zeros(300)}, parts=2)
    found = StoredGraph.open(tmp_path / "n", tmp_path / "e", directed=True)
    links = graph.links[np.lexsort(graph.links.T[::-1])]
    np.testing.assert_array_equal(some_links(Serial(), found), links)
    some = some_links(Serial(), found, len(both) // 4)
    assert 0.15 < len(some) / graph.num_edges < 0.35
    assert {*map(tuple, some.tolist())} < {*map(tuple, graph.links.tolist())}


def test_nodes_that_are_repeated_or_missing_are_refused(tmp_path):
    graph, twice = drawn(), np.arange(300)
    twice[11] = 12
    found = opened(graph, tmp_path, order=twice)
    for work in (lambda: moments_of(Serial(), found), lambda: load(Serial(), found)):
        with raises("damaged", match=r"0 to 299, each once; some are missing or repeated"):
            work()


def test_an_edge_to_a_node_that_is_not_there_is_refused(tmp_path):
    nodes = opened(drawn(), tmp_path / "g").nodes.files[0].parent
    for wrong in (300, -1):
        ends = {"source": np.array([1]), "target": np.array([wrong])}
        edges = save(tmp_path / f"e{wrong}", ends, 1)
        with raises("range", match=f"the node {wrong}, but there are 300"):
            some_links(Serial(), StoredGraph.open(nodes, edges))
        with raises("range", match=f"the node {wrong}, but there are 300"):
            load(Serial(), StoredGraph.open(nodes, edges))


def test_an_empty_part_is_a_part(tmp_path):
    found = opened(attributed("weighted"), tmp_path)
    table = pq.read_table(found.edges.files[0])
    pq.write_table(table.slice(0, 0), found.edges.files[0].parent / "empty.parquet")
    again = StoredGraph.open(found.nodes.files[0].parent, found.edges.files[0].parent)
    assert len(again.edges.files) == 4
    assert load(Serial(), again).num_edges == drawn().num_edges


def test_parts_of_other_columns_are_refused(tmp_path):
    found = opened(drawn(), tmp_path)
    nodes, folder = (table.files[0].parent for table in (found.nodes, found.edges))
    for other in ({"source": [1], "goal": [2]}, {"source": [1], "target": [2.0]}):
        pq.write_table(pa.table(other), folder / "z.parquet")
        with raises("table", match=r"z.parquet does not have the columns of part-0.parquet"):
            StoredGraph.open(nodes, folder)
    with raises("table", match="source and target"):
        StoredGraph.open(nodes, nodes)


def test_indices_of_pandas_and_dask_are_no_columns(tmp_path):
    graph = drawn()
    found = opened(graph, tmp_path)
    for path in [*found.edges.files, *found.nodes.files]:
        table = pq.read_table(path)
        for name in ("__index_level_0__", "__null_dask_index__"):
            table = table.append_column(name, pa.array(range(len(table))))
        pq.write_table(table, path)
    again = StoredGraph.open(found.nodes.files[0].parent, found.edges.files[0].parent)
    assert (again.is_plain, again.features) == (True, found.features)
    np.testing.assert_array_equal(load(Serial(), again).features, graph.features)


def test_an_address_is_listed_and_read(tmp_path):
    graph = drawn()
    opened(graph, tmp_path)
    for place in ((tmp_path / "nodes").as_uri(), f"{(tmp_path / 'nodes').as_uri()}/part-*.parquet"):
        found = StoredGraph.open(place, (tmp_path / "edges").as_uri())
        np.testing.assert_array_equal(load(Serial(), found).features, graph.features)
    with raises("damaged", "no Parquet file"):
        parquet_files((tmp_path / "absent").as_uri())


def test_a_part_that_is_not_there_any_more(tmp_path):
    found = opened(drawn(), tmp_path)
    found.edges.files[1].unlink()
    with raises("damaged", match=r"part-1.parquet is missing"):
        load(Serial(), found)


def test_codes_of_edges_stay_integers(tmp_path):
    """As in memory: a model may look them up."""
    graph = drawn().replace(edge_features=np.arange(drawn().num_edges)[:, None] % 7)
    found = load(Serial(), opened(graph, tmp_path))
    assert found.edge_features.dtype == graph.edge_features.dtype == np.int64


def test_a_folder_whose_name_looks_like_a_pattern(tmp_path):
    graph = drawn()
    opened(graph, tmp_path / "run[1]")
    found = StoredGraph.open(tmp_path / "run[1]" / "nodes", tmp_path / "run[1]" / "edges")
    assert load(Serial(), found).num_edges == graph.num_edges


def test_types_of_nodes_are_carried(tmp_path):
    save(tmp_path / "n", {"x": np.array([1.0, 2.0, 3.0]), "type": np.array([0, 1, 1])}, 2)
    save(tmp_path / "e", {"source": np.array([0, 1]), "target": np.array([1, 2])}, 2)
    found = load(Serial(), StoredGraph.open(tmp_path / "n", tmp_path / "e"))
    assert isinstance(found, Graph)
    assert found.node_type.tolist() == [0, 1, 1]


def test_layers_are_read_from_modules():
    assert layers(predictor(nn.models.GraphSAGE(5, 8, 3, 2))) == 3
    assert layers(predictor(torch.nn.Linear(5, 2))) is None
    assert layers(SIGN(hops=3)) == 3
