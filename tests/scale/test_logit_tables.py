"""Recalibration of logits in Parquet: one pass for statistics, one for probabilities."""

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import recalibrate, temperature
from graphtemper.recalibration import streaming
from graphtemper.scale import Serial, StoredGraph
from graphtemper.scale.confidence_sketch import ConfidenceSketch
from graphtemper.scale.logit_tables import LogitArray, LogitTables

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(folder, logits, cuts=(300, 1100), nodes=None):
    folder.mkdir(exist_ok=True)
    for part, rows in enumerate(np.split(np.arange(len(logits)), list(cuts))):
        columns = {f"logit_{k}": column for k, column in enumerate(logits[rows].T)}
        if nodes is not None:
            columns = {"node": [nodes[row] for row in rows]} | columns
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")
    return folder


@pytest.fixture
def logits(problem):
    return problem.model(problem.target).astype(np.float64)


@pytest.fixture
def folder(logits, tmp_path):
    return write(tmp_path / "logits", logits)


def test_with_feature_moments_the_answer_is_that_of_recalibrate(problem, logits, folder, tmp_path):
    result = recalibrate(
        folder, StoredGraph.open(problem.tables["features"]), problem.card, out=tmp_path / "out"
    ).to_dict()
    expected = recalibrate(logits, problem.target, problem.card).to_dict()
    for name in ("confidence", "confident_share", "certain_share"):
        assert result["signals"][name] == pytest.approx(expected["signals"][name], rel=1e-9)
    for key in ("value", "low", "high"):
        assert result["accuracy"][key] == pytest.approx(expected["accuracy"][key], rel=1e-6)
    assert result["temperature"] == pytest.approx(expected["temperature"], rel=1e-4)
    assert (result["verdict"], result["num_nodes"]) == (expected["verdict"], 2000)


def test_without_feature_moments_the_verdict_is_at_most_caution(problem, folder, tmp_path):
    result = recalibrate(folder, None, problem.card, out=tmp_path / "out")
    assert result.verdict != "trust"
    assert result.reasons[-1].code == "features_unknown"
    assert "log_degree" not in result.signals


def test_probabilities(problem, logits, folder, tmp_path):
    result = recalibrate(folder, None, problem.card, out=tmp_path / "out")
    table = pq.read_table(result.out)
    p = np.column_stack([table[f"probability_{k}"].to_numpy() for k in range(4)])
    z = logits / result.temperature
    np.testing.assert_allclose(p, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_array_equal(table["node"].to_numpy(), np.arange(2000))
    assert result.mean_confidence[1] == pytest.approx(p.max(axis=1).mean(), rel=1e-12)


def test_files_are_read_twice(problem, folder, tmp_path):
    opened = []

    class Counted(LogitTables):
        def batches(self, part):
            opened.append(part)
            return super().batches(part)

    recalibrate(Counted.open(folder, 4), None, problem.card, out=tmp_path / "out")
    assert opened == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("factor", [1e-6, 1.0, 300.0, 1e9])
def test_a_temperature_far_from_that_of_the_source(logits, factor):
    """The first range of temperatures does not reach it, so logits are read again."""
    parts = LogitArray(factor * logits, 4)
    sketch = ConfidenceSketch.of(parts.values)
    over = partial(streaming.over_batches, Serial(), parts)
    found = streaming.match_confidence(over, 1.0, sketch, 0.6)
    assert found == pytest.approx(temperature.match_confidence(parts.values, 0.6), rel=1e-6)


@pytest.mark.parametrize("kind", ["columns", "list"])
def test_a_large_file_is_read_in_batches(problem, tmp_path, kind):
    """Also with a single row group."""
    logits = np.random.default_rng(0).standard_normal((200_000, 4))
    columns = {f"logit_{k}": column for k, column in enumerate(logits.T)}
    if kind == "list":
        rows = pa.FixedSizeListArray.from_arrays(logits.ravel(), 4)
        columns = {"logits": rows.cast(pa.list_(pa.float64()))}
    pq.write_table(pa.table(columns), tmp_path / "z.parquet", row_group_size=len(logits))
    size = logits.nbytes
    del logits, columns
    parts = replace(LogitTables.open(tmp_path / "z.parquet", 4), values_at_once=20_000)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        recalibrate(parts, None, problem.card, out=tmp_path / "out")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert peak < 0.6 * size
    assert pool.max_memory() < size


def test_lists_and_names(problem, logits, folder, tmp_path):
    """One list per row, as Spark writes it, and named nodes; batches smaller than files."""
    other = tmp_path / "lists"
    other.mkdir()
    names = [f"user {row}" for row in range(2000)]
    table = pa.table({"node": names, "logits": list(logits)})
    pq.write_table(table, other / "all.parquet", row_group_size=130)
    result = recalibrate(other, None, problem.card, out=tmp_path / "one")
    plain = recalibrate(folder, None, problem.card, out=tmp_path / "other")
    assert result.temperature == pytest.approx(plain.temperature, rel=1e-9)
    assert pq.read_table(result.out)["node"].to_pylist() == names


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"logit_0": [0.0], "logit_1": [1.0]}, "table"),
        ({f"logit_{k}": ["a"] for k in range(4)}, "table"),
        ({f"logit_{k}": [None, 1.0] for k in range(4)}, "table"),
        ({f"logit_{k}": [0.25, float(k == 0)] for k in range(4)}, "damaged"),
        ({f"logit_{k}": [float(k), np.inf] for k in range(4)}, "damaged"),
    ],
)
def test_a_bad_file_is_named_and_nothing_is_left(problem, folder, tmp_path, columns, error):
    pq.write_table(pa.table(columns), folder / "part-2.parquet")
    with raises(error) as error:
        recalibrate(folder, None, problem.card, out=tmp_path / "out")
    assert "part-2.parquet" in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["logits"]


def test_files_of_one_name_keep_their_results_apart(problem, logits, folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / "days" / path.stem).mkdir(parents=True)
        path.rename(tmp_path / "days" / path.stem / "part.parquet")
    result = recalibrate(
        tmp_path / "days" / "*" / "part.parquet", None, problem.card, out=tmp_path / "out"
    )
    assert pq.read_table(result.out).num_rows == len(logits)


def test_a_truncated_file_is_named(problem, folder, tmp_path):
    path = folder / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with raises("damaged"):
        recalibrate(folder, None, problem.card, out=tmp_path / "out")


@pytest.mark.parametrize("names", [None, [f"user {row}" for row in range(2000)]])
def test_an_empty_file_gives_an_empty_table(problem, logits, tmp_path, names):
    """Spark writes them: first, in the middle and last."""
    folder = write(tmp_path / "logits", logits, (0, 300, 300, 2000), names)
    for path in folder.iterdir():  # an empty list has no type
        table = pq.read_table(path)
        if names is not None and not table.num_rows:
            pq.write_table(table.set_column(0, "node", pa.array([], pa.string())), path)
    result = recalibrate(folder, None, problem.card, out=tmp_path / "out")
    tables = [pq.read_table(path) for path in sorted(result.out.glob("*.parquet"))]
    assert [table.num_rows for table in tables] == [0, 300, 0, 1700, 0]
    assert len({str(table.schema) for table in tables}) == 1
    whole = pq.read_table(result.out)["node"].to_pylist()
    assert whole == (list(range(2000)) if names is None else names)


@pytest.mark.parametrize(
    "columns",
    [
        {"logits": [0.5, 1.0]},
        {"logits": [["a", "b", "c", "d"]]},
        {"logits": [[0.0, 1.0, 2.0]]},
        {f"logit_{k}": [0.0] for k in (1, 2, 3, 4)},
        {f"logit_{k}": [0.0] for k in range(5)},
        {f"logit_{k}": [0.0] for k in (0, 1, 2, 3, 17)},
    ],
)
def test_columns_that_are_not_the_logits(problem, tmp_path, columns):
    pq.write_table(pa.table(columns), tmp_path / "z.parquet")
    with raises("table"):
        recalibrate(tmp_path / "z.parquet", None, problem.card, out=tmp_path / "out")


def test_no_files(problem, tmp_path):
    with raises("damaged"):
        recalibrate(tmp_path / "nowhere", None, problem.card, out=tmp_path / "out")
