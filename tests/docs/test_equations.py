"""The table of equations, functions and tests is complete, and names existing tests."""

import re

import pytest


@pytest.fixture(scope="module")
def equations(extension):
    return extension("equations")


@pytest.fixture(scope="module")
def rows(equations, docs):
    return equations.rows(docs.parent / "tests")


def test_every_statement_of_the_paper_has_a_function(equations, rows):
    stated = {label for row in rows for label in row.items}
    assert stated == set(equations.ITEMS)


def test_every_function_has_a_test_that_exists(rows, docs):
    names = set()
    for path in (docs.parent / "tests").rglob("test_*.py"):
        names |= set(re.findall(r"^ *def (test_\w+)", path.read_text("utf-8"), flags=re.M))
    for row in rows:
        assert row.tests, f"{row.name} has no test"
        assert set(row.tests) <= names


def test_the_theory_is_there_in_full(rows):
    from graphtemper import theory

    assert {f"theory.{name}" for name in theory.__all__} <= {row.name for row in rows}


def test_what_counts_as_a_citation(equations):
    text = "Say it (``prop:K``).\n\nAs in ``lem:agg`` but (``as:reg``, roughly) not ``cor:global``."
    assert equations.cited(text) == ["prop:K", "as:reg"]
    assert equations.cited("Do Algorithm 1 as printed.") == ["alg:stac"]
    assert equations.cited("Theorem 10 is another.") == []


def test_a_formula_ends_where_its_sentence_does(equations):
    assert equations.formula("X.\n\nFormula: 0.5 (a + b).\n  Assumptions: none.") == "0.5 (a + b)"
    assert equations.formula("Formula: a /\n  b\n\nmore") == "a / b"


def test_a_test_counts_where_it_calls_the_function(equations, tmp_path):
    lines = [
        "from graphtemper import theory",
        "def test_refusal():",
        "    with pytest.raises(E): theory.slope(2, 0.8, 1)",
        "def test_answer():",
        "    assert theory.slope(0.8, 0.8, 1) == 1",
        "def helper(): theory.ece_bound(1, 1)",
    ]
    (tmp_path / "test_theory.py").write_text("\n".join(lines))
    by_name = {row.name: row.tests for row in equations.rows(tmp_path)}
    assert by_name["theory.slope"] == ("test_answer", "test_refusal")
    assert by_name["theory.ece_bound"] == ()
