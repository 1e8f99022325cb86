"""An interrupted run of all figures resumes after the last finished one."""

import json

import pytest

from graphtemper_research import paper as experiments
from graphtemper_research.commands import paper as research
from graphtemper_research.harness import unfinished
from graphtemper_research.harness.outcome import Comparison, Outcome
from graphtemper_research.paper import audit_page

NAMES = ("one", "two", "three")


@pytest.fixture
def made(monkeypatch):
    """Three small figures: the list of those really made, and where to be interrupted."""
    made = []

    def run(name):
        if name == stop["at"]:
            raise KeyboardInterrupt
        made.append(name)
        compared = [Comparison("a quantity", 0.5, "reported", None)]
        return Outcome(name, name.title(), {"seed": 1}, compared, [{"x": 1}], lambda figure: None)

    stop = {"at": None}
    monkeypatch.setattr(experiments, "FIGURES", dict.fromkeys(NAMES, ""))
    monkeypatch.setattr(experiments, "run", run)
    monkeypatch.setattr(audit_page, "render", lambda folder: "# Audit\n")
    return made, stop


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_interrupted_run_resumes_to_the_same_files(made, tmp_path, capsys):
    runs, stop = made
    research.paper("all", out=tmp_path / "whole", as_json=True)
    whole = json.loads(capsys.readouterr().out)
    assert runs == list(NAMES)
    runs.clear()
    stop["at"] = "three"
    with pytest.raises(KeyboardInterrupt):
        research.paper("all", out=tmp_path / "parts", as_json=True)
    capsys.readouterr()
    assert (tmp_path / "parts" / unfinished.FILE).is_file()
    stop["at"] = None
    research.paper("all", out=tmp_path / "parts", as_json=True)
    assert runs == list(NAMES)  # none of them twice
    assert json.loads(capsys.readouterr().out) == whole
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    # Finished: the next run makes everything again.
    runs.clear()
    research.paper("all", out=tmp_path / "parts", as_json=True)
    assert runs == list(NAMES)


@pytest.mark.parametrize("damage", ["other code", "damaged", "outcome gone", "outcome damaged"])
def test_what_does_not_fit_is_made_again(made, tmp_path, damage):
    runs, stop = made
    stop["at"] = "three"
    with pytest.raises(KeyboardInterrupt):
        research.paper("all", out=tmp_path, as_json=True)
    journal = tmp_path / unfinished.FILE
    if damage == "other code":
        found = json.loads(journal.read_text())
        journal.write_text(json.dumps(found | {"key": "0" * 64}))
    elif damage == "damaged":
        journal.write_bytes(journal.read_bytes()[:20])
    elif damage == "outcome gone":
        (tmp_path / "one.json").unlink()
    else:
        (tmp_path / "two.json").write_text("{")
    runs.clear()
    stop["at"] = None
    research.paper("all", out=tmp_path, as_json=True)
    assert runs == list(NAMES)
    assert not journal.exists()


def test_one_figure_is_always_made(made, tmp_path):
    runs, stop = made
    stop["at"] = "two"
    with pytest.raises(KeyboardInterrupt):
        research.paper("all", out=tmp_path, as_json=True)
    research.paper("one", out=tmp_path, as_json=True)
    assert runs == ["one", "one"]
