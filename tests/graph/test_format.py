"""The .npz files of graphs."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

from graphtemper import Graph
from graphtemper._core.files import atomic_write


@pytest.mark.parametrize("sparse", [False, True])
def test_save_and_load_are_inverse(tmp_path, sparse):
    dense = np.array([[0, 1.5], [0, 0], [2, 0], [0, -1]])
    graph = Graph(
        features=sp.csr_matrix(dense) if sparse else dense,
        edges=[[0, 1], [1, 2], [3, 1]],
        labels=[0, 1, -1, 1],
        train_masks=np.array([[True, False, False, True]]),
        time=[1, 2, 3, 4],
        environment=[0, 0, 1, -1],
        name="small",
        class_names=["yes", "no"],
        feature_names=["left", "right"],
    )
    graph.save(tmp_path / "g.npz")
    loaded = Graph.load(tmp_path / "g.npz")
    assert sp.issparse(loaded.features) == sparse
    np.testing.assert_array_equal(loaded.features.toarray() if sparse else loaded.features, dense)
    for key in ("edges", "labels", "train_masks", "time", "environment"):
        assert np.array_equal(getattr(loaded, key), getattr(graph, key)), key
    for key in ("val_masks", "test_masks"):
        assert getattr(loaded, key) is None
    for key in ("name", "class_names", "feature_names"):
        assert getattr(loaded, key) == getattr(graph, key), key
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]


def archive(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def csr(**changed):
    """A file with sparse features, of which some arrays are others."""
    parts = {"data": [1.0], "indices": [0], "indptr": [0, 1, 1, 1], "shape": [3, 2]} | changed
    arrays = {f"features_{key}": np.array(value) for key, value in parts.items()}
    return archive(edges=np.array([[0, 1]]), **arrays)


GOOD = {"features": np.zeros((3, 2), np.float32), "edges": np.array([[0, 1]])}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 not really a zip",
        archive(**GOOD)[:-40],
        archive(edges=GOOD["edges"]),
        archive(features=GOOD["features"]),
        archive(features=np.array([{}], dtype=object), edges=GOOD["edges"]),
        archive(**(GOOD | {"edges": np.array([[0, 7]])})),
        archive(**GOOD, labels=np.array([0, 1])),
        csr(indices=[5]),
        csr(indptr=[0, 2, 1, 1]),
        csr(indptr=np.array([0, 2, 1, 1], np.uint64)),
        csr(data=["a"]),
        archive(**GOOD, labels=np.array([0, 1, 0]), class_names=np.array(["a"])),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with raises("damaged") as caught:
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
    with raises("damaged"):
        Graph.load(path)


def test_a_missing_file_is_named(tmp_path):
    with raises("no-file"):
        Graph.load(tmp_path / "nowhere.npz")


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as stream:  # noqa: PT012
        stream.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
