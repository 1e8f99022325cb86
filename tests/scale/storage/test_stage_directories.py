"""Stage directories: what may be removed."""

import pytest

from graphtemper.scale.storage.output_directory import atomic_directory


@pytest.mark.parametrize("record", ["victim", ".out.graphtemper-00000000-x", ""])
def test_a_damaged_record_of_external_stages_removes_nothing(tmp_path, record):
    victim, working = tmp_path / (record or "victim"), tmp_path / ".out.graphtemper"
    victim.mkdir()
    working.mkdir()
    (working / "elsewhere").write_text(str(victim) if record else "")
    with atomic_directory(tmp_path / "out"):
        pass
    assert victim.is_dir()
    assert not working.exists()
