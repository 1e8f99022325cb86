"""The raw table and its page: what goes in comes out, and the digest of the script is right."""

import base64
import hashlib
import json
import re

import pytest
from tests.helpers import raises

from graphtemper_research.harness.provenance import commit
from graphtemper_research.leaderboard import raw
from graphtemper_research.leaderboard.board import PROTOCOL, joined
from graphtemper_research.leaderboard.models import USUAL
from graphtemper_research.leaderboard.page import render, write_page
from graphtemper_research.leaderboard.tasks import SCHEMA


@pytest.fixture
def folder(tmp_path, cells):
    (tmp_path / "cells").mkdir()
    for place, cell in enumerate(cells):
        rows = [row | {"family": row["shift"].partition("(")[0]} for row in cell["rows"]]
        content = cell | {"schema": SCHEMA, "rows": rows}
        (tmp_path / "cells" / f"{place}.json").write_text(json.dumps(content))
    return tmp_path


def test_the_raw_rows_are_those_of_the_cells(folder, cells):
    rows = raw.rows_in(folder)
    assert len(rows) == sum(len(cell["rows"]) for cell in cells)
    assert {row["family"] for row in rows} == {"none", "noise", "drop"}
    assert rows[0]["ece"] == cells[0]["rows"][0]["ece"]
    assert rows[0]["estimate"] is None


def test_cells_of_another_protocol_are_left_out(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with raises("empty"):
        raw.cells_in(empty)
    count = len(raw.cells_in(folder))
    (folder / "cells" / "old.json").write_text(json.dumps({"schema": "older", "rows": []}))
    assert len(raw.cells_in(folder)) == count


def test_the_page_is_self_contained_and_allows_its_script_alone(folder):
    page = render(raw.rows_in(folder))
    script = re.findall(r"<script>(.*?)</script>", page, flags=re.S)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"sha256-{digest}" in page
    assert "http" not in re.sub(r"http-equiv", "", page)
    assert not re.search(r"@[A-Z]+@", page)
    assert page == render(raw.rows_in(folder))
    assert write_page(folder / "page.html", raw.rows_in(folder)) == len(page.encode())


def test_the_page_states_protocol_time_and_code(folder):
    page = render(raw.rows_in(folder))
    assert PROTOCOL.split("(")[0] in page
    assert "took 0.4 hours of one processor (0.8 hours by the clock" in page
    assert f"Commit: {commit()}." in page


def test_the_page_states_what_was_left_out(folder, cells):
    assert "have fewer" not in render(raw.rows_in(folder))
    assert "GAT is not among the default backbones" in render(raw.rows_in(folder))
    assert "GAT" not in USUAL
    tent = [cells[0]["rows"][0] | {"method": "Tent", "family": "none"}]
    content = cells[0] | {"schema": SCHEMA, "rows": tent}
    (folder / "cells" / "apart.json").write_text(json.dumps(content))
    assert "Of the 2 graphs, some methods have fewer: Tent 1." in render(raw.rows_in(folder))


def test_parts_of_a_cell_are_joined(cells):
    more = cells[0] | {"rows": [{"shift": "none", "method": "Tent"}]}
    found = joined([*cells, more])
    assert len(found) == len(cells)
    assert len(found[0]["rows"]) == len(cells[0]["rows"]) + 1
    assert len(cells[0]["rows"]) == len(found[1]["rows"])
