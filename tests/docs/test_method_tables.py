"""The tables of the method pages are means of the committed results, doing nothing beside."""

import re
from statistics import mean

import pytest

from graphtemper_research.harness.provenance import load


@pytest.fixture(scope="module")
def found(extension, docs):
    extension("evidence")
    module = extension("method_tables")
    return module.tables(module.Results(docs / "results"))


@pytest.fixture(scope="module")
def rows(docs):
    return lambda name: load(docs / f"results/atlas/{name}.json")["rows"]


def cells(table, row):
    line = next(line for line in table.splitlines() if line.startswith(f"| {row}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_families_with_environments_are_plain_means(found, rows):
    own = [
        row
        for row in rows("natural_environments")
        if (row["model"], row["family"]) == ("SIGN", "twitch")
    ]
    shown = cells(found["environments_families"], "twitch")
    assert shown[0] == f"twitch ({len(own)} pairs)"
    names = ("uncalibrated", "source-T", "mean gap", "no environment", "one environment")
    for name, cell in zip((*names, "all environments"), shown[1:], strict=False):
        assert cell == f"{mean(row[f'ece {name}'] for row in own):.3f}"
    past = cells(found["past_environments"], "covid_us")
    history = [
        row["ece past environments"]
        for row in rows("natural_environments")
        if row["family"] == "covid_us"
        and row["model"] == "SIGN"
        and row["ece past environments"] is not None
    ]
    assert past[-1] == f"{mean(history):.3f}"


def test_node_temperatures_sets_and_labels_are_those_of_the_files(found, rows):
    for row in rows("per_node"):
        if (row["graph"], row["shifts"], row["method"]) == ("average", "all shifts", "source-T"):
            shown = cells(found["per_node"], "source temperature")[1:]
            assert shown == [f"{row[key]:.4f}" for key in ("brier", "nll", "auroc", "ece")]
    for row in rows("sets"):
        if (row.get("graph"), row["score"], row.get("method")) == ("average", "raps", "atlas"):
            assert cells(found["sets"], "RAPS, recalibrated")[1] == f"{row['coverage']:.3f}"
            assert cells(found["sets_shares"], "RAPS")[2] == f"{row['moved']:.3f}"
    families = {}
    for row in rows("natural_labels"):
        if row["model"] == "SIGN":
            families.setdefault(row["family"], []).append(row["ece 20 labels"])
    means = mean(mean(own) for own in families.values())
    assert cells(found["natural_labels"], "**graphtemper**")[1] == f"{means:.3f}"
    corrected = [
        row["ece after"]
        for row in rows("class_shares")
        if row["applied"] and row["shift"] == "none" and row["strength"] > 0
    ]
    assert cells(found["class_shares"], "mean ECE")[-1] == f"{mean(corrected):.3f}"
    assert f"{len(corrected)} of them corrected" in found["class_shares"]


def test_whoever_shows_the_source_temperature_shows_doing_nothing(found, extension, docs):
    pages = {path: path.read_text("utf-8") for path in docs.rglob("*.md") if shown_page(path)}
    texts = [*pages.values(), *found.values(), *extension("evidence").tables(docs).values()]
    tables = [t for text in texts for t in re.findall(r"(?:^\|.*\n)+", text, re.M)]
    assert len(tables) > 20
    for table in tables:
        words = [cell.strip(" *") for line in table.splitlines() for cell in line.split("|")]
        if "source temperature" in words:
            assert "doing nothing" in table, table


def shown_page(path):
    return not {"_build", "_generated", "results", "generated"} & set(path.parts)


def test_a_score_that_is_infinite_is_no_number(extension):
    tables = extension("method_tables")
    assert (tables._score(None), tables._score(0.87546)) == ("∞", "0.8755")
