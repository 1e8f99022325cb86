"""The command that measures every committed result again."""

import json
from pathlib import Path

import pytest

from graphtemper_research import benches, evidence, paper
from graphtemper_research.commands.bench import bench
from graphtemper_research.harness.digest import digest, scale_digest
from graphtemper_research.results import stale

RESULTS = Path(__file__).parents[2] / "docs" / "results"
NAMED = {job.name: job for job in evidence.JOBS}


def test_every_committed_result_has_one_command():
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    made = [f"{job.folder}/{name}".lstrip("/") for job in evidence.JOBS for name in job.results]
    assert len(made) == len(set(made))
    others = {*evidence.SPEED, *evidence.README}
    apart = {Path(name).stem for name in others}
    for path in RESULTS.rglob("*"):
        name = path.relative_to(RESULTS).as_posix()
        if path.is_file() and name != "DATA.md":
            assert name.rpartition(".")[0] in {*made, *apart}, f"no command makes {name}"
    assert all((RESULTS / name).is_file() for name in others)


def test_every_figure_and_every_bench_is_measured():
    assert {f"paper-{name}" for name in paper.FIGURES} <= set(NAMED)
    assert {name for job in evidence.JOBS for name in job.results} >= set(benches.MODULES)
    known = {name for name in bench if not name.startswith("-")}
    assert {job.command[3] for job in evidence.JOBS if job.cells} <= known


def job(*lines, cells=()):
    code = "import json, sys\nout = sys.argv[1]\n" + "\n".join(lines)
    return evidence.Job("slope", ("-c", code, evidence.OUT, *cells), ("slope",))


def test_a_job_is_measured_until_the_current_code_has_finished_it(tmp_path):
    stamp = f"json.dump({{'code': '{digest()}'}}, open(out + '/slope.json', 'w'))"
    one = job(stamp)
    assert not evidence.done(one, tmp_path)
    assert evidence.run(one, tmp_path).endswith(" s")
    assert evidence.run(one, tmp_path) == "slope: finished before"
    (tmp_path / "slope" / "slope.json").write_text(json.dumps({"code": "0" * 12}))
    assert not evidence.done(one, tmp_path)
    assert "FAILED with 3: no" in evidence.run(
        job("print('no', file=sys.stderr); sys.exit(3)"), tmp_path
    )


def test_a_bench_gets_all_processes(tmp_path):
    write = "open(out + '/given', 'w').write(' '.join(sys.argv[2:]))"
    evidence.run(job(write, cells=("--jobs",)), tmp_path, jobs=2)
    assert (tmp_path / "slope" / "given").read_text() == "--jobs 2"


def test_results_are_copied_to_their_folder(tmp_path):
    one = evidence.Job("controls", (), ("controls",), "atlas")
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


def test_stale_results_are_named(tmp_path, capsys):
    (tmp_path / "bound.json").write_text(json.dumps({"code": "0" * 12}))
    assert evidence.main(["--out", str(tmp_path), "--stale"]) == 1
    assert capsys.readouterr().out == "bound.json: 000000000000\n"
    (tmp_path / "bound.json").write_text(json.dumps({"code": digest()}))
    assert evidence.main(["--out", str(tmp_path), "--stale"]) == 0


def test_each_row_of_a_benchmark_has_a_digest(tmp_path):
    rows = [{"code": digest()}, {"scale": scale_digest()}]
    (tmp_path / "speed.json").write_text(json.dumps(rows))
    assert stale(tmp_path) == {}
    rows += [{"code": "0" * 12}, {"scale": "1" * 12}, {}]
    (tmp_path / "speed.json").write_text(json.dumps(rows))
    assert stale(tmp_path) == {"speed.json": f"{'0' * 12}, {'1' * 12}, None"}
