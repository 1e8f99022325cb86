"""A directory gets its name only once it is complete."""

import os

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper.scale.output import atomic_directory, write_probabilities

pytest.importorskip("pyarrow")
PART = [(np.arange(1), np.full((1, 2), 0.5))]


def test_a_task_that_outlives_its_run_creates_no_directory(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic_directory(tmp_path / "out") as folder:
        raise KeyboardInterrupt
    with raises("write"):
        write_probabilities(folder / "part-00001.parquet", PART)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_permissions_are_those_of_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        with atomic_directory(tmp_path / "out") as folder:
            assert folder.stat().st_mode & 0o777 == 0o777 & ~mask
            write_probabilities(folder / "x", PART)
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777 & ~mask
    assert (tmp_path / "out" / "x").stat().st_mode & 0o777 == 0o666 & ~mask


def test_the_partial_file_of_a_dead_worker_is_not_in_the_result(tmp_path):
    with atomic_directory(tmp_path / "out") as folder:
        (folder / "part.parquet").write_bytes(b"complete")
        (folder / ".part.parquet.x1").write_bytes(b"ha")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part.parquet"]


def test_a_full_disk_leaves_nothing(tmp_path):
    with raises("write"), atomic_directory(tmp_path / "out"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())
