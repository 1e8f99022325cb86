"""Tables of edges: every edge is read, or the table is refused."""

import pytest

from graphtemper.errors import FileError
from graphtemper.scale.conversion.tables import read_edges

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

EDGES = [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    "text",
    [
        "0,1\n1,2\n",
        "0\t1\r\n1\t2\r\n",
        "0 1 \n1 2 \n",
        "\ufeff0,1\n1,2\n",
        "\ufeff0 1\n1 2\n",
        "\ufeff# comment\nsource,target\n0,1\n1,2\n",
        '"0","1"\n"1","2"\n',
        '"source","target"\n"0","1"\n"1","2"\n',
        ":START_ID,:END_ID\n0,1\n1,2\n",
        "source target\n0 1\n1 2\n",
        "# " + "word " * 6_000 + "\n0 1\n1 2\n",
        "% " + "x" * 9_998 + "\n\n0 1\n1 2\n",
        "number,source,target\n5,0,1\n7,1,2\n",
        "Src,Dst,note\n0,1,first\n1,2,second\n",
        "time to from\n9 1 0\n9 2 1\n",
    ],
)
def test_every_edge_is_read(tmp_path, text):
    path = tmp_path / "edges.txt"
    path.write_bytes(text.encode())
    assert [edges.tolist() for edges in read_edges(path)] == [EDGES]


@pytest.mark.parametrize(
    "text",
    [
        "0  1\n1  2\n",
        " 0 1\n 1 2\n",
        "source target\n0  1\n",
        "source,target,Weight\n0,1,5\n1,2,5\n",
        "1e0 2e0\n1 2\n",
        "0.5,1\n1,2\n",
        "0,a\n1,2\n",
        "1st,2nd\n1,2\n",
        ",1\n1,2\n",
        "0\n1\n",
        "# nothing\n",
        "0,1,first\n1,2,second\n",
        "time,a,b\n9,0,1\n",
    ],
)
def test_no_line_is_dropped_silently(tmp_path, text):
    path = tmp_path / "edges.txt"
    path.write_bytes(text.encode())
    with pytest.raises(FileError):
        list(read_edges(path))


def test_ends_in_parquet_are_chosen_by_name(tmp_path):
    path = tmp_path / "edges.parquet"
    columns = {"time": [9, 9], "dst": [1, 2], "src": [0, 1]}
    parquet.write_table(pyarrow.table(columns), path)
    assert [edges.tolist() for edges in read_edges(path)] == [EDGES]
    parquet.write_table(pyarrow.table({"time": [9], "a": [0], "b": [1]}), path)
    with pytest.raises(FileError):
        list(read_edges(path))
