"""The archive holds results, checksums and open graphs, and is the same every time."""

import hashlib
import json
import tarfile

import pytest
from tests.helpers import raises

from graphtemper import __version__, csbm
from graphtemper_research.graphs import datasets, deposit
from graphtemper_research.harness.digest import digest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "folders", lambda: [tmp_path / "graphs"])
    (tmp_path / "graphs").mkdir()
    for name in ("airport_usa", "cora", "bitcoin_otc"):
        csbm.sample(20, 4, 0.8, 1.0, seed=1).save(tmp_path / "graphs" / f"{name}.npz")
    (tmp_path / "results" / "atlas").mkdir(parents=True)
    (tmp_path / "results" / "atlas" / "rows.csv").write_text("a,b\n")
    return tmp_path


def test_the_archive_holds_what_may_be_passed_on(folder):
    names = deposit.archive(folder / "one.tar.gz", folder / "results")
    licences = {name: datasets.CATALOGUE[name].licence for name in ("airport_usa", "bitcoin_otc")}
    assert "airport_usa" in names
    assert ("bitcoin_otc" in names) == (licences["bitcoin_otc"] != "none stated")
    with tarfile.open(folder / "one.tar.gz") as tar:
        files = {m.name.partition("/")[2]: tar.extractfile(m).read() for m in tar.getmembers()}
    assert files["results/atlas/rows.csv"] == b"a,b\n"
    sums = dict(line.split("  ")[::-1] for line in files.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert {name for name in files if name.startswith("graphs/")} == {
        f"graphs/{name}.npz" for name in names
    }


def test_the_same_files_give_the_same_bytes(folder):
    for name in ("one", "two"):
        deposit.archive(folder / f"{name}.tar.gz", folder / "results")
    assert (folder / "one.tar.gz").read_bytes() == (folder / "two.tar.gz").read_bytes()
    with raises("no-file"):
        deposit.archive(folder / "three.tar.gz", folder / "nowhere")


def test_the_page_credits_every_graph(folder):
    page = deposit.page(folder / "results")
    assert all(f"| {name} | " in page for name in datasets.CATALOGUE)


def test_the_page_names_results_of_other_code(folder):
    results = folder / "results"
    (results / "atlas" / "labels.json").write_text(json.dumps({"code": digest()}))
    assert f"graphtemper {__version__}, code `{digest()}`.\n" in deposit.page(results)
    (results / "slope.json").write_text(json.dumps({"code": "0" * 12}))
    assert f"`{digest()}`, except those of other code: `slope.json` ({'0' * 12}).\n" in (
        deposit.page(results)
    )
