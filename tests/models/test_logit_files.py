"""Logits in every format: the same numbers, in the graph's order, or one sentence."""

import numpy as np
import pytest
from tests.helpers import needs, raises

from graphtemper.errors import FileError
from graphtemper.scale.logit_tables import open_logits, read_logits

LOGITS = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)


def table(rows, head=None):
    lines = [",".join(map(repr, row)) for row in rows]
    return "\n".join([head, *lines] if head is not None else lines) + "\n"


def named(path, order):
    rows = [[int(node), *LOGITS[node].tolist()] for node in order]
    path.write_text(table(rows, "node,logit_0,logit_1,logit_2"))


def pandas_csv(path):
    path.write_text(table([[k, *row] for k, row in enumerate(LOGITS.tolist())], ",0,1,2"))


def parquet(path, **columns):
    needs("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    shuffled = np.random.default_rng(1).permutation(60)
    columns = {f"logit_{k}": LOGITS[shuffled, k] for k in range(3)}
    pq.write_table(pa.table({"node": shuffled} | columns), path)


WRITERS = {
    "a.npy": lambda path: np.save(path, LOGITS),
    "a.npz": lambda path: np.savez(path, logits=LOGITS),
    "plain.csv": lambda path: path.write_text(table(LOGITS.tolist())),
    "head.csv": lambda path: path.write_text(table(LOGITS.tolist(), "logit_0,logit_1,logit_2")),
    "counted.csv": lambda path: path.write_text(table(LOGITS.tolist(), "0,1,2")),
    "pandas.csv": pandas_csv,
    "shuffled.csv": lambda path: named(path, np.random.default_rng(2).permutation(60)),
    "shuffled.parquet": parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_logits(name, tmp_path):
    WRITERS[name](tmp_path / name)
    assert np.array_equal(read_logits(tmp_path / name, 60, 3), LOGITS)
    with raises("damaged"):
        read_logits(tmp_path / name, 61, 3)
    with raises(("damaged", "table")):
        read_logits(tmp_path / name, 60, 4)


def write(text):
    return lambda path: path.write_text(text)


BAD = {
    "words.csv": write("a,b,c\n1,2,3\n"),
    "ragged.csv": write("1,2,3\n1,2\n"),
    "text.csv": write("1,2,3\n1,x,3\n"),
    "underscore.csv": write("1,2,3\n1_0,2,3\n"),
    "nan.csv": write("1,2,3\n" * 59 + "1,nan,3\n"),
    "twice.csv": lambda path: named(path, [0] * 60),
    "half.csv": write("node,0,1,2\n" + "0.5,1,2,3\n" * 60),
    "empty.csv": write(""),
    "a.xlsx": write("x"),
    "a.npz": lambda path: np.savez(path, scores=LOGITS),
    "text.npz": write("1,2,3\n"),
    "a.npy": lambda path: np.save(path, np.array([{}], object), allow_pickle=True),
    "none.npy": lambda path: None,
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_one_sentence(name, tmp_path):
    BAD[name](tmp_path / name)
    with pytest.raises(FileError) as caught:
        read_logits(tmp_path / name, 60, 3)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_names_of_nodes_are_kept_for_results(tmp_path):
    named(tmp_path / "a.csv", np.arange(60)[::-1])
    parts = open_logits(tmp_path / "a.csv", 3)
    ((nodes, logits),) = parts.batches(0)
    assert nodes.tolist() == list(range(59, -1, -1))
    assert np.array_equal(logits[::-1], LOGITS)
    assert parts.file_name(0) == "a.parquet"
