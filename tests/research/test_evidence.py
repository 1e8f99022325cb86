"""The command that measures committed results again, and the one that says which to measure."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from graphtemper_research import benches, evidence, paper
from graphtemper_research.commands.bench import bench
from graphtemper_research.harness import provenance, uses

RESULTS = Path(__file__).parents[2] / "docs" / "results"
NAMED = {job.name: job for job in evidence.JOBS}
LARGEST = 2_000_000
"""Bytes of all committed results."""


@pytest.fixture(scope="module")
def committed():
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    return [path for path in RESULTS.rglob("*") if path.is_file()]


def test_every_result_says_who_measured_it(committed):
    results = [path for path in committed if path.suffix == ".json"]
    assert len(results) > 30
    for path in results:
        measured = provenance.read(path)
        assert measured.version, path.name
        assert len(measured.commit) >= 7, path.name
        assert measured.command, path.name


def test_results_are_summaries(committed):
    assert sum(path.stat().st_size for path in committed) <= LARGEST


def test_every_committed_result_has_one_command(committed):
    made = [f"{job.folder}/{name}".lstrip("/") for job in evidence.JOBS for name in job.results]
    assert len(made) == len(set(made))
    for path in committed:
        name = path.relative_to(RESULTS).as_posix()
        if name != "DATA.md":
            assert name.rpartition(".")[0] in {*made, *evidence.APART}, f"no command makes {name}"


def test_every_figure_and_every_bench_is_measured():
    assert {f"paper-{name}" for name in paper.FIGURES} <= set(NAMED)
    assert {name for job in evidence.JOBS for name in job.results} >= set(benches.MODULES)
    known = {name for name in bench if not name.startswith("-")}
    assert {job.command[3] for job in evidence.JOBS if job.cells} <= known


def test_the_code_behind_every_result_is_found():
    modules = {module for job in evidence.JOBS for module in job.modules}
    for module in {*modules, *evidence.APART.values()}:
        assert len(uses.used(module)) > 10, module


def job(*lines, cells=()):
    code = "import json, sys\nout = sys.argv[1]\n" + "\n".join(lines)
    return evidence.Job("slope", ("-c", code, evidence.OUT, *cells), ("slope",), ("graphtemper",))


def test_a_job_is_measured_until_the_current_code_has_finished_it(tmp_path):
    one = job("open(out + '/slope.json', 'w').close()")
    assert not evidence.done(one, tmp_path)
    assert evidence.run(one, tmp_path).endswith(" s")
    assert evidence.run(one, tmp_path) == "slope: finished before"
    (tmp_path / "slope" / "code").write_text("0" * 12)
    assert not evidence.done(one, tmp_path)
    failing = job("print('no', file=sys.stderr); sys.exit(3)")
    assert "FAILED with 3: no" in evidence.run(failing, tmp_path)
    assert not evidence.done(failing, tmp_path)


def test_a_bench_gets_all_processes(tmp_path):
    write = "open(out + '/given', 'w').write(' '.join(sys.argv[2:]))"
    evidence.run(job(write, cells=("--jobs",)), tmp_path, jobs=2)
    assert (tmp_path / "slope" / "given").read_text() == "--jobs 2"


def test_results_are_copied_to_their_folder(tmp_path):
    one = NAMED["controls"]
    (tmp_path / "controls").mkdir()
    (tmp_path / "controls" / "controls.md").write_text("page")
    evidence.collect(one, tmp_path, tmp_path / "out")
    assert (tmp_path / "out" / "atlas" / "controls.md").read_text() == "page"


@pytest.mark.parametrize(("name", "kept"), [("paper-slope", False), ("paper-setting", True)])
def test_figures_have_one_page_and_every_bench_its_own(tmp_path, name, kept):
    job = NAMED[name]
    folder = tmp_path / "work" / name
    folder.mkdir(parents=True)
    (folder / f"{job.results[0]}.md").write_text("page")
    evidence.collect(job, tmp_path / "work", tmp_path / "out")
    assert bool([*tmp_path.glob("out/**/*.md")]) == kept


def test_the_archive_has_results_and_raw_rows(tmp_path):
    out, work = tmp_path / "results", tmp_path / "work"
    for path in (out / "atlas" / "labels.json", work / "labels" / "cells" / "a-1.json"):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    given = ["--out", str(out), "--work", str(work), "--archive"]
    for name in ("one.zip", "two.zip"):
        assert evidence.main([*given, str(tmp_path / name)]) == 0
    with zipfile.ZipFile(tmp_path / "one.zip") as packed:
        assert packed.namelist() == ["results/atlas/labels.json", "raw/labels/cells/a-1.json"]
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Return a repository of a small library with a result of its only commit."""
    for name, text in {
        "src/graphtemper/card/response.py": "WIDTH = 2.0  # a width\n",
        "src/graphtemper/errors.py": "MESSAGE = 'no graph'\n",
        "src/graphtemper/calibrators/__init__.py": "",
        "research/src/graphtemper_research/trials/negative_controls.py": (
            "from graphtemper import errors\nfrom graphtemper.card import response\n"
        ),
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=tmp_path, capture_output=True, text=True
    ).stdout.strip()
    measured = {"version": "0", "commit": head, "date": "", "command": "", "cpu_seconds": None}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "controls.json").write_text(provenance.text({"measured": measured}))
    folders = tuple(tmp_path / path.relative_to(uses.CHECKOUT) for path in uses.FOLDERS)
    monkeypatch.setattr(uses, "CHECKOUT", tmp_path)
    monkeypatch.setattr(uses, "FOLDERS", folders)
    yield tmp_path
    shutil.rmtree(tmp_path / ".git")


@pytest.mark.parametrize(
    ("file", "text", "stale"),
    [
        ("card/response.py", "WIDTH = 2.0  # another comment\n", False),
        ("card/response.py", "WIDTH = 2.1\n", True),
        ("errors.py", "MESSAGE = 'no edges'\n", False),
        ("calibrators/mine.py", "class Mine: ...\n", False),
    ],
)
def test_a_release_measures_results_whose_code_has_changed(checkout, capsys, file, text, stale):
    (checkout / "src" / "graphtemper" / file).write_text(text)
    given = ["--out", str(checkout / "results"), "--check"]
    assert evidence.main(given) == stale
    assert ("controls.json: measured at 0" in capsys.readouterr().out) == stale


def test_a_result_of_an_unknown_commit_is_measured_again(checkout):
    path = checkout / "results" / "controls.json"
    path.write_text(path.read_text().replace(provenance.read(path).commit, "0" * 7))
    assert evidence.stale(path.parent) == {"controls.json": "measured at 0 (0000000)"}
