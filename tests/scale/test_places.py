"""Places of Parquet files: paths, addresses of files, and addresses of stores."""

import os
import time

import pytest
from tests.helpers import needs, raises

from graphtemper.scale import StoredGraph, parquet
from graphtemper.scale.parquet import Table, in_time, parquet_files

needs("pyarrow")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "memory", "mock", "S3"])
def test_addresses_of_other_schemes_are_refused(scheme):
    with raises("damaged", "no place"):
        parquet_files(f"{scheme}://host/part.parquet")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_addresses_of_files_are_under_the_rules_of_paths(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "a b.parquet")
    assert Table.open((tmp_path / "a b.parquet").as_uri()).num_rows == 2
    os.mkfifo(tmp_path / "pipe.parquet")
    with raises("damaged"):
        Table.open((tmp_path / "pipe.parquet").as_uri())


def test_a_store_that_does_not_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(parquet, "SECONDS", 0.1)
    with pytest.raises(TimeoutError, match="no answer within"):
        in_time(time.sleep, 30)
    monkeypatch.setattr(parquet, "in_time", lambda call, *given: in_time(time.sleep, 30))
    with raises("damaged", "no answer within"):
        parquet_files("s3://bucket/folder")
    with raises("unreadable", "no answer within"):
        Table.open("s3://bucket/part.parquet")
    with pytest.raises(ZeroDivisionError):
        in_time(divmod, 1, 0)


def test_a_small_file_of_very_many_edges_is_refused_before_it_is_read(tmp_path):
    zeros = pa.array([0]).take(pa.array([0] * 200_000))
    part = pa.table({"source": zeros, "target": zeros})
    with pq.ParquetWriter(tmp_path / "edges.parquet", part.schema, compression="zstd") as file:
        for _ in range(6):
            file.write_table(pa.concat_tables([part] * 10))
    pq.write_table(pa.table({"x": [0.0, 1.0]}), tmp_path / "nodes.parquet")
    with raises("oversize", "12,000,000 rows"):
        StoredGraph.open(tmp_path / "nodes.parquet", tmp_path / "edges.parquet")
