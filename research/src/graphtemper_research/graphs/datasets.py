"""The catalogue of node-classification graphs: sizes, credits, licences, and where to find them.

Graphs are not part of the package. They are searched in the folders that ``GRAPHTEMPER_DATA`` lists
and in the user's cache, where `fetch` puts the graphs of the paper: from their authors' repository,
or from the server that ``GRAPHTEMPER_MIRROR`` names (``MIRROR/NAME.npz``, the authors' own files).
"""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import urllib.request
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphtemper import Graph, errors
from graphtemper.graph import content_digest

HETEROPHILOUS = ("roman_empire", "amazon_ratings", "tolokers", "minesweeper", "questions")

UPSTREAM = "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data"
# Git blob ids of NAME.npz there; a changed file is another graph and is refused.
BLOB_IDS = {
    "roman_empire": "1f9bae5e95b28e529015269e98acb237b65d8d3b",
    "amazon_ratings": "29647a8b0ff0ef856d73d683a8c3595bd5efbd38",
    "questions": "4c7cb65057dbc9771af00fdfdee64a41b3875079",
    "minesweeper": "cc2387032c65b92a5c520c473db1527cbb329d32",
    "tolokers": "b8375a91a8f3c9e32c84fed7c151bbaf6ea6f0c7",
}

_SPLITS = ("train_masks", "val_masks", "test_masks")


@dataclass(frozen=True)
class Dataset:
    """What is published about a graph: size, origin and licence.

    ``what`` reads node / edge / label. A licence marked "(repo)" is that of the upstream
    repository and may not have been meant for the data. Graphs of one family have the same columns
    and classes; those of the collection ``"natural"`` are environments of a family under natural
    shift (places, periods, releases, languages), the others are common benchmarks. ``sha256`` is
    the digest of the graph (`graphtemper.graph.digest.content_digest`) without its name and with
    edges in ascending order; it is empty where it is not known.
    """

    name: str
    family: str
    collection: Literal["benchmark", "natural"]
    what: str
    nodes: int
    edges: int
    features: int
    classes: int
    homophily: float
    publication: str
    licence: str
    upstream: str
    sha256: str


@cache
def _catalogue() -> dict[str, Dataset]:
    text = (
        resources.files("graphtemper_research.graphs").joinpath("catalogue.csv").read_text("utf-8")
    )
    entries = {}
    for row in csv.DictReader(text.splitlines()):
        numbers = {key: int(row.pop(key)) for key in ("nodes", "edges", "features", "classes")}
        homophily = float(row.pop("homophily"))
        entries[row["name"]] = Dataset(**row, **numbers, homophily=homophily)  # type: ignore[arg-type]
    return entries


CATALOGUE = _catalogue()


def folders() -> list[Path]:
    """Return the folders that are searched for graphs, in order.

    First those that the environment variable ``GRAPHTEMPER_DATA`` lists (separated as in ``PATH``),
    then the user's cache.
    """
    listed = os.environ.get("GRAPHTEMPER_DATA", "").split(os.pathsep)
    return [*(Path(folder) for folder in listed if folder), cache_folder()]


def cache_folder() -> Path:
    """Return the user's cache folder for graphs (``XDG_CACHE_HOME`` is respected)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "graphtemper"


def _is_file(path: Path) -> bool:
    # The system refuses some folder names, such as very long ones; they hold no graph.
    try:
        return path.is_file()
    except OSError:
        return False


def find(name: str) -> Path | None:
    """Return the path of a graph's ``.npz``, or None where this machine does not have it.

    Examples
    --------
    >>> find("cora ")
    Traceback (most recent call last):
    graphtemper.errors.InputError: unknown graph 'cora '; `graphtemper data list` shows the names.
    """
    if name not in CATALOGUE:
        raise errors.choice(f"unknown graph {name!r}; `graphtemper data list` shows the names.")
    for folder in folders():
        path = folder / f"{name}.npz"
        if _is_file(path):
            return path
    return None


def load(name: str) -> Graph:
    """Load a graph of the catalogue by name."""
    path = find(name)
    if path is None:
        raise errors.no_file(f"the graph {name!r} is not on this machine; {_remedy(name)}")
    return Graph.load(path).replace(name=name)


def load_any(source: str) -> Graph:
    """Load a graph by its name in the catalogue or by the path of an ``.npz``."""
    if source in CATALOGUE:
        return load(source)
    if not Path(source).suffix and not Path(source).exists():
        find(source)  # raises an error that lists the known names
    return Graph.load(source)


def fetch(name: str) -> Path:
    """Return the path of a graph, after downloading it into the user's cache if it is missing.

    The authors' file is checked by its git blob id and then converted to the package's format;
    the order of the nodes is kept. The result is compared with the SHA-256 of the catalogue, which
    minesweeper and tolokers have.

    Examples
    --------
    >>> path = fetch("minesweeper")   # doctest: +SKIP
    >>> Graph.load(path).num_nodes    # doctest: +SKIP
    10000
    """
    path = find(name)
    if path is not None:
        return path
    if name not in BLOB_IDS:
        raise errors.download(f"the graph {name!r} has no download; {_remedy(name)}")
    target = cache_folder() / f"{name}.npz"
    part = target.with_name(f"{target.name}.part")
    url = f"{os.environ.get('GRAPHTEMPER_MIRROR') or UPSTREAM}/{target.name}"
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=30) as response, part.open("wb") as stream:
            shutil.copyfileobj(response, stream)
    except (OSError, HTTPException) as error:
        raise errors.download(f"{name}.npz could not be fetched: {error}; try again.") from error
    if git_blob_id(part) != BLOB_IDS[name]:
        part.unlink()
        raise errors.download(
            f"the server does not have the published {name}.npz (git blob {BLOB_IDS[name]}); try "
            "again later or set GRAPHTEMPER_MIRROR to another server."
        )
    graph = _convert(part, name)
    part.unlink()
    if not _is_catalogued(graph, name):
        raise errors.download(
            f"{name}.npz holds another graph than the catalogue (SHA-256 "
            f"{CATALOGUE[name].sha256}); set GRAPHTEMPER_MIRROR to another server."
        )
    graph.save(target)
    return target


def git_blob_id(path: Path) -> str:
    r"""Return the id that git gives to a file's content: sha1 of ``blob SIZE\0CONTENT``.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "empty"
    >>> _ = path.write_bytes(b"")
    >>> git_blob_id(path)
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _is_catalogued(graph: Graph, name: str) -> bool:
    known = CATALOGUE[name].sha256
    return not known or sha256(graph) == known


def sha256(graph: Graph) -> str:
    """Return the digest of an undirected graph without its name, whatever its edges' order."""
    edges = np.unique(np.sort(graph.edges, axis=1), axis=0)
    return content_digest(graph.replace(edges=edges), ["name"])


def _convert(path: Path, name: str) -> Graph:
    """Read a file of the heterophilous-graphs repository, whose content is known."""
    with np.load(path) as arrays:
        masks = {key: arrays[key].astype(bool) for key in _SPLITS}
        labels = {"labels": arrays["node_labels"], "name": name}
        return Graph.from_edges(arrays["node_features"], arrays["edges"], **labels, **masks)


def _remedy(name: str) -> str:
    manual = f"put {name}.npz into a folder and set GRAPHTEMPER_DATA to it."
    return f"run `graphtemper data fetch {name}`, or {manual}" if name in BLOB_IDS else manual


def inspect(source: str | os.PathLike[str]) -> dict[str, Any]:
    """Measure a graph given by its name in the catalogue or by a path; see `describe`.

    For a graph of the catalogue, ``catalogued`` says whether its content is the published one, or
    None where the catalogue has no SHA-256.

    Examples
    --------
    >>> inspect("nowhere.npz")
    Traceback (most recent call last):
    graphtemper.errors.FileError: nowhere.npz does not exist or is not a file.
    """
    name = os.fspath(source)
    if name in CATALOGUE:
        graph, known = load(name), CATALOGUE[name].sha256
        catalogued = _is_catalogued(graph, name) if known else None
        return describe(graph) | {"path": str(find(name)), "catalogued": catalogued}
    return describe(load_any(name)) | {"path": name}


def describe(graph: Graph) -> dict[str, Any]:
    r"""Return the sizes of a graph, its class shares, homophily, degrees, features and splits.

    ``homophily`` is the fraction of edges that join equal labels, among the edges with two labelled
    ends. ``adjusted_homophily`` subtracts what chance would give (Platonov et al., 2023):
    :math:`(h - \sum_k p_k^2) / (1 - \sum_k p_k^2)` with :math:`p_k` the fraction of edge ends in
    class k; 1 is perfect, 0 is chance. Both are None without an edge between labelled nodes, and
    the second with one class only.

    Examples
    --------
    >>> features, edges = [[1.0], [0.0], [2.0], [0.0]], [[0, 1], [1, 2]]
    >>> g = Graph(features=features, edges=edges, labels=[0, 0, 1, 1])
    >>> summary = describe(g)
    >>> summary["class_shares"], summary["homophily"], summary["isolated"]
    ([0.5, 0.5], 0.5, 1)
    >>> round(summary["adjusted_homophily"], 3)   # chance is (3/4)^2 + (1/4)^2
    -0.333
    """
    homophily, adjusted = _homophily(graph)
    labels = np.empty(0, np.int64) if graph.labels is None else graph.labels[graph.labelled]
    counts = np.bincount(labels, minlength=graph.num_classes)
    features = graph.features
    stored = features if isinstance(features, np.ndarray) else features.data
    return {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "labelled": int(labels.size),
        "class_shares": (counts / max(labels.size, 1)).tolist(),
        "homophily": homophily,
        "adjusted_homophily": adjusted,
        "isolated": int((graph.degrees == 0).sum()),
        "degree_mean": float(graph.degrees.mean()),
        "degree_max": int(graph.degrees.max()),
        "feature_density": float(np.count_nonzero(stored) / np.prod(features.shape)),
        "feature_storage": "dense" if isinstance(features, np.ndarray) else "sparse",
        "splits": _split_sizes(graph),
    }


def _homophily(graph: Graph) -> tuple[float | None, float | None]:
    if graph.labels is None:
        return None, None
    ends = graph.labels[graph.links]
    ends = ends[(ends >= 0).all(axis=1)]
    if not ends.size:
        return None, None
    share = float((ends[:, 0] == ends[:, 1]).mean())
    chance = float(((np.bincount(ends.ravel()) / ends.size) ** 2).sum())
    return share, None if chance == 1.0 else (share - chance) / (1.0 - chance)


def _split_sizes(graph: Graph) -> dict[str, Any]:
    """Return the number of stored splits and the number of nodes in each part of each."""
    masks: dict[str, NDArray[np.bool_]] = {
        key.removesuffix("_masks"): value
        for key in _SPLITS
        if (value := getattr(graph, key)) is not None
    }
    count = max((len(mask) for mask in masks.values()), default=0)
    return {"count": count} | {key: mask.sum(axis=1).tolist() for key, mask in masks.items()}
