"""Tables of edges as text: every edge is read, or the table is refused."""

import pytest

from graphtemper.errors import FileError
from graphtemper.scale.tables import read_edges

pytest.importorskip("pyarrow")

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
        "0,1,first\n1,2,second\n",
    ],
)
def test_every_edge_is_read(tmp_path, text):
    path = tmp_path / "edges.txt"
    path.write_bytes(text.encode())
    assert [edges.tolist() for edges in read_edges(path)] == [EDGES]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("-1 2\n1 2\n", "names the node -1; number nodes from 0"),
        ("source,target\n0,1\n1,-7\n", "names the node -7"),
        ("0  1\n1  2\n", "two between numbers; separate them by one space"),
        (" 0 1\n 1 2\n", "a space at the start"),
        ("  0  1\n 10  2\n", "a space at the start"),
        ("source target\n0  1\n", "two between numbers"),
        ("1e0 2e0\n1 2\n", "must hold whole numbers"),
        ("0.5,1\n1,2\n", "must hold whole numbers"),
        ("0,a\n1,2\n", "must hold whole numbers"),
        ("1st,2nd\n1,2\n", "must hold whole numbers"),
        (",1\n1,2\n", "without gaps"),
        ("0\n1\n", "two numbers a line"),
        ("# nothing\n", "holds no edges"),
    ],
)
def test_no_line_is_dropped_in_silence(tmp_path, text, told):
    path = tmp_path / "edges.txt"
    path.write_bytes(text.encode())
    with pytest.raises(FileError, match=told):
        list(read_edges(path))
