"""Workspaces: when a stage counts as finished."""

from graphtemper.scale.storage.workspace import open_workspace


def test_a_stage_without_its_columns_is_not_finished(tmp_path):
    calls = []
    with open_workspace(tmp_path / "stages", 4) as workspace:
        columns = workspace.stage_columns("x", 2, "float32")

        def work():
            calls.append(1)
            columns.write(0, [[1.0, 2.0]] * 4)
            return 0.1 + 0.2

        assert workspace.stage("x", work, columns) == 0.1 + 0.2
        assert workspace.stage("x", work, columns) == 0.1 + 0.2
        assert len(calls) == 1
        columns.remove()
        workspace.stage("x", work, columns)
        assert len(calls) == 2
        assert columns.open().sum() == 12.0
