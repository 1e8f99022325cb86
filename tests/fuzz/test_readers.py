"""Every reader gives a correct result or one sentence on damaged files.

Valid files are truncated, flipped, spliced and overwritten. Hypothesis searches for the smallest
change that breaks a reader; `corpus` holds files that once did. GRAPHTEMPER_FUZZ sets the number of
changes per reader of a file, of which `make nightly` makes 100; readers of folders get half as
many.
"""

import io
import json
import os
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.fuzz.targets import TARGETS, one_sentence
from tests.helpers import raises

from graphtemper._core.files import read_npz
from graphtemper._core.safe_reading import sealed

TRIALS = int(os.environ.get("GRAPHTEMPER_FUZZ", "10"))


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """The bytes of a valid file for every reader of files."""
    folder, contents = tmp_path_factory.mktemp("valid"), {}
    for name, target in TARGETS.items():
        target.write(folder / name)
        target.read(folder / name)  # an invalid file would test nothing
        contents[name] = (folder / name).read_bytes()
    return contents


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


@pytest.mark.parametrize("name", TARGETS)
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
        one_sentence(TARGETS[name].read, path)

    trial()


# Formats that come from elsewhere, with the readers of each; every seed is a committed file.
SEARCHED = {
    "card": ("card.json",),
    "session": ("session.json",),
    "log": ("watch.sqlite",),
    "npz": ("graph.npz", "model.npz", "logits.npz"),
    "parquet": ("logits.parquet", "lists.parquet", "edges.parquet", "features.parquet"),
}
SECONDS = 60.0 * float(os.environ.get("GRAPHTEMPER_FUZZ_MINUTES", "0.02"))
CORPUS = Path(__file__).with_name("corpus")


def recombined(rng, seeds):
    """Return a seed with some bytes changed, cut or taken from another one."""
    content = seeds[rng.integers(len(seeds))]
    for _ in range(rng.integers(1, 6)):
        kind = rng.choice(["cut", "flip", "fill", "drop", "twice", "other"])
        length = int(rng.choice([1, 2, 4, 8, 17, 64, 500]))
        if kind == "other":
            other = seeds[rng.integers(len(seeds))]
            start, place = (int(rng.random() * len(x)) for x in (other, content))
            content = content[:place] + other[start : start + length] + content[place + length :]
        else:
            content = changed(content, (kind, rng.random(), length, int(rng.integers(256))))
    return content


@pytest.mark.nightly
@pytest.mark.cpu(700)
@pytest.mark.parametrize("kind", SEARCHED)
def test_a_search_finds_no_file_that_breaks_a_reader(kind, valid, tmp_path):
    """Ten minutes for each format in `make nightly`; the seed of the search is that of the day."""
    day = int(time.time() // 86_400)
    rng, begun = np.random.default_rng(day), time.monotonic()
    seeds = {
        name: [valid[name]]
        + [path.read_bytes() for path in sorted((CORPUS / name.replace(".", "-")).glob("*"))]
        for name in SEARCHED[kind]
    }
    tried = 0
    while time.monotonic() < begun + SECONDS:
        name = str(rng.choice(SEARCHED[kind]))
        content = recombined(rng, seeds[name])
        if name.endswith(".json") and tried % 2:  # half of them with a right checksum
            whole = json.loads(valid[name])
            ways = paths_into(whole)
            way = ways[rng.integers(len(ways))]
            value = VALUES[rng.integers(len(VALUES))]
            content = sealed(
                {k: v for k, v in edited(whole, way, value).items() if k != "crc32"}
            ).encode()
        path = tmp_path / name
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        try:
            one_sentence(TARGETS[name].read, path)
        except BaseException:
            kept = tmp_path.parent / f"{kind}-{day}-{tried}"
            kept.write_bytes(content)
            print(f"trial {tried} of day {day}; add {kept} to tests/fuzz/corpus")
            raise
        tried += 1
    assert tried > 10


VALUES = (None, True, -1, 0, 2**63, 1e308, 5e-324, -0.0, "", "\u202e", "AAAA", [], [[]], {}, [None])


def paths_into(value, way=()):
    """Return the paths to all values inside a JSON value; of lists, to the first two entries."""
    paths = [way] if way else []
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value[:2])
        for key, inner in parts:
            paths += paths_into(inner, (*way, key))
    return paths


def edited(content, way, value):
    """Return a copy with one value replaced."""
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return copy


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ["card.json", "outcome.json"])
def test_documents_with_other_values(name, valid, tmp_path):
    """Well-formed JSON with one field replaced is refused, or the value works."""
    content, path = json.loads(valid[name]), tmp_path / name
    ways = paths_into(content)

    @settings(max_examples=3 * TRIALS, deadline=None, database=None)
    @given(st.sampled_from(ways), JSON)
    def trial(way, value):
        changed_content = edited(content, way, value)
        write = sealed if name == "card.json" else json.dumps
        path.write_text(write(changed_content), "utf-8")
        one_sentence(TARGETS[name].read, path)

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
        one_sentence(TARGETS[name].read, path)

    trial()


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
        with raises("oversize"):
            read_npz(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
