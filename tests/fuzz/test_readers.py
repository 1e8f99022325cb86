"""Every reader against damaged files: the right answer or one sentence, nothing else.

Valid files are truncated, flipped, spliced and filled with other bytes. Hypothesis looks for the
smallest change that gets past a reader; `corpus` keeps changes that once did. GRAPHTEMPER_FUZZ sets
how many changes are tried for each reader.
"""

import io
import json
import os
import sqlite3
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from graphtemper import Graph, SourceCard, csbm, models
from graphtemper.errors import GraphTemperError
from graphtemper.experiments.outcome import read_outcome
from graphtemper.files import read_npz
from graphtemper.label_files import read_label_file
from graphtemper.models import SIGN
from graphtemper.monitor import Entry, Log
from graphtemper.predictors import read_logits
from graphtemper.report.page import read_report

TRIALS = int(os.environ.get("GRAPHTEMPER_FUZZ", "60"))
ENTRY = Entry("a", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("why",), {"s": 1.0})


def read_log(path):
    return Log(path, "card").entries()


READERS = {
    "graph.npz": Graph.load,
    "card.json": SourceCard.load,
    "model.npz": models.load,
    "logits.npz": lambda path: read_logits(path, 60),
    "logits.npy": lambda path: read_logits(path, 60),
    "labels.csv": lambda path: read_label_file(path, 60, 2),
    "watch.sqlite": read_log,
    "outcome.json": read_outcome,
    "report.html": read_report,
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """A valid file for every reader."""
    folder = tmp_path_factory.mktemp("valid")
    graph = csbm.sample(60, 4, 0.8, 1.0, num_features=3, seed=1)
    graph.replace(train_masks=np.ones((1, 60), bool), time=np.arange(60)).save(folder / "graph.npz")
    model = SIGN(hops=1).fit(graph)
    model.save(folder / "model.npz")
    SourceCard.build(model, graph, compositions=0).save(folder / "card.json")
    np.savez(folder / "logits.npz", logits=model(graph))
    np.save(folder / "logits.npy", model(graph))
    (folder / "labels.csv").write_text("node,class,weight\n1,0,2.0\n5,1,1.5\n7,,1.0\n")
    Log(folder / "watch.sqlite", "card").append(ENTRY)
    outcome = {"schema": "graphtemper.outcome/1", "name": "x", "rows": [], "comparisons": []}
    (folder / "outcome.json").write_text(json.dumps(outcome))
    block = json.dumps({"schema": "graphtemper.report/1"})
    (folder / "report.html").write_text(
        f'<script type="application/json" id="graphtemper-report">{block}</script>'
    )
    return {name: (folder / name).read_bytes() for name in READERS}


def one_sentence(reader, path):
    """Read a file: anything but an answer or an error of one line fails the test."""
    try:
        reader(path)
    except GraphTemperError as error:
        told = str(error)
    else:
        told = "read"
    assert told
    assert "\n" not in told


def changed(content, change):
    """Return the bytes after a change: (kind, place, length, fill)."""
    kind, place, length, fill = change
    start = int(place * len(content))
    stop = min(start + length, len(content))
    if kind == "cut":
        return content[:start]
    if kind == "flip":
        return content[:start] + bytes(b ^ fill for b in content[start:stop]) + content[stop:]
    if kind == "fill":
        return content[:start] + bytes([fill]) * length + content[stop:]
    if kind == "drop":
        return content[:start] + content[stop:]
    return content[:stop] + content[start:]  # a part twice


CHANGES = st.tuples(
    st.sampled_from(["cut", "flip", "fill", "drop", "twice"]),
    st.floats(0.0, 1.0),
    st.sampled_from([1, 2, 3, 4, 8, 17, 64, 500]),
    st.integers(0, 255),
)


@pytest.mark.parametrize("name", READERS)
def test_damaged_bytes(name, valid, tmp_path):
    path = tmp_path / name

    @settings(
        max_examples=TRIALS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(CHANGES, min_size=1, max_size=3))
    @example([("cut", 0.0, 1, 0)])
    @example([("cut", 0.5, 1, 0)])
    @example([("fill", 0.0, 500, 255)])
    @example([("flip", 0.99, 4, 128)])
    def trial(changes):
        content = valid[name]
        for change in changes:
            content = changed(content, change)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        one_sentence(READERS[name], path)

    trial()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def test_cards_with_other_values(valid, tmp_path):
    """Well-formed JSON with one field replaced: refused by name, or a card that works."""
    card = json.loads(valid["card.json"])
    path = tmp_path / "card.json"

    def places(value, way=()):
        found = [way] if way else []
        if isinstance(value, dict | list):
            parts = value.items() if isinstance(value, dict) else enumerate(value[:2])
            for key, inner in parts:
                found += places(inner, (*way, key))
        return found

    ways = places(card)

    @settings(max_examples=3 * TRIALS, deadline=None, database=None)
    @given(st.sampled_from(ways), JSON)
    def trial(way, value):
        edited = json.loads(valid["card.json"])
        inner = edited
        for key in way[:-1]:
            inner = inner[key]
        inner[way[-1]] = value
        path.write_text(json.dumps(edited), "utf-8")
        one_sentence(SourceCard.load, path)

    trial()


ARRAYS = st.one_of(
    st.just(np.array([{"a": 1}], dtype=object)),
    st.just(np.array(["x", "\ud7ff"])),
    st.just(np.array([[np.nan, np.inf]])),
    st.just(np.array(2**63 - 1)),
    st.just(np.full((60, 2), -(2**62))),
    st.just(np.zeros((0, 0), np.float32)),
    st.just(np.zeros((2, 2), np.complex128)),
    st.just(np.array([b"\xff\x00"])),
    st.just(np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])),
    st.just(np.array(["2020-01-01"], dtype="M8[D]")),
    st.just(np.zeros((60, 3), np.float16)),
)


@pytest.mark.parametrize("name", ["graph.npz", "model.npz", "logits.npz"])
def test_archives_with_other_arrays(name, valid, tmp_path):
    with np.load(io.BytesIO(valid[name]), allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    path = tmp_path / name

    @settings(max_examples=TRIALS, deadline=None, database=None)
    @given(st.sampled_from([*arrays, "more", "../../etc/passwd", "ü/\u202e"]), ARRAYS)
    def trial(key, array):
        np.savez(path, **{**arrays, key: array})
        one_sentence(READERS[name], path)

    trial()


def archive_of(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)


def as_npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_a_name_twice(tmp_path):
    path = tmp_path / "twice.npz"
    archive_of(path, [("features.npy", as_npy(np.ones((2, 1))))] * 2)
    with pytest.raises(GraphTemperError, match="twice"):
        read_npz(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (300_000_000,)}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("features.npy", "w", force_zip64=True) as stream,
    ):
        stream.write(header.getvalue())
        for _ in range(300):
            stream.write(bytes(1_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(GraphTemperError, match="would unpack"):
            read_npz(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_reading_takes_little_more_than_the_arrays(tmp_path):
    path = tmp_path / "large.npz"
    np.savez(path, features=np.random.default_rng(0).random((200_000, 10)))
    honest = path.stat().st_size
    tracemalloc.start()
    try:
        read_npz(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * honest


def test_a_deep_card_does_not_exhaust_the_stack(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 60_000 + "]" * 60_000)
    with pytest.raises(GraphTemperError):
        SourceCard.load(path)


def test_a_log_with_huge_values_is_refused(tmp_path):
    path = tmp_path / "watch.sqlite"
    Log(path, "card")
    with sqlite3.connect(path) as base:
        base.execute(
            "INSERT INTO snapshots VALUES"
            " (1, 'a', '0', 5, 9e999, 0, 1, 1, 1, 1, 'trust', '[]', '{}')"
        )
    base.close()
    with pytest.raises(GraphTemperError, match="finite"):
        Log(path, "card").entries()
