"""Every claim of the audit has a verdict, which falls with its numbers."""

import copy
import shutil

import pytest
from tests.paper.conftest import RESULTS

from graphtemper_research.numbers import Results
from graphtemper_research.paper import audit_page

CLAIMS = {claim["title"]: claim for claim in audit_page.claims()}


@pytest.fixture(scope="module")
def results(committed):
    return Results(RESULTS)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_the_committed_numbers_show_what_each_verdict_says(results, claim):
    found = audit_page.numbers_of(claim, results)
    assert audit_page.holds(claim, found)
    assert "{" not in claim["measured"].format_map(found)


def test_a_claim_that_is_not_measured_has_no_verdict(committed, tmp_path):
    for name in ("audit", "synthetic"):
        shutil.copy(RESULTS / f"{name}.json", tmp_path)
    page = audit_page.render(tmp_path)
    present = [
        one for one in CLAIMS.values() if {"audit", "synthetic"} >= set(audit_page.needs(one))
    ]
    assert page.count("**Verdict:**") == len(present) < len(CLAIMS)
    assert page.count("not measured yet") == len(CLAIMS) - len(present)
    assert "not measured yet: run `graphtemper paper real`" in page


class Changed(Results):
    """The committed results, one of which a test has changed."""

    def __init__(self, name, content):
        super().__init__(RESULTS)
        self.read = lambda other: content if other == name else self._read(other)


def test_the_verdict_on_rewiring_needs_both_graphs(results):
    content = copy.deepcopy(results.read("audit"))
    for row in content["rows"]:
        if (row.get("graph"), row.get("share"), row.get("method")) == ("tolokers", 0.0, "oracle"):
            row["ece"] = 0.02
    claim = CLAIMS["One temperature repairs rewiring"]
    found = audit_page.numbers_of(claim, Changed("audit", content))
    assert not audit_page.holds(claim, found)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("the atlas: median", 0.5),
        ("no correction: median", 0.9),
        ("theory, true homophilies, where they fall", 0.9),
        ("theory, predicted homophilies: Spearman", 0.7),
    ],
)
def test_the_verdict_on_the_diagnostic_needs_all_that_it_says(results, quantity, value):
    content = copy.deepcopy(results.read("diagnostic"))
    (item,) = (i for i in content["comparisons"] if i["quantity"].startswith(quantity))
    item["measured"] = value
    claim = CLAIMS["kappa is useful on its own"]
    found = audit_page.numbers_of(claim, Changed("diagnostic", content))
    assert not audit_page.holds(claim, found)


@pytest.mark.parametrize("text", ["__import__('os')", "low.real", "[low]", "low ** 9", "'a'", "x"])
def test_a_formula_is_arithmetic_and_nothing_else(text):
    claim = {"holds": text}
    with pytest.raises(ValueError, match="arithmetic"):
        audit_page.holds(claim, {"low": 0.5})
