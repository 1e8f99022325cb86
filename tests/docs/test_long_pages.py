"""Long pages of results: an overview that counts what the tables say, and folded tables."""

import doctest


def test_the_overview_counts_goals(extension):
    assert doctest.testmod(extension("long_pages")).attempted == 2
    assert doctest.testmod(extension("long_pages")).failed == 0


def test_the_overview_agrees_with_the_tables(extension, docs, site):
    page = (docs / "results.md").read_text("utf-8")
    overview = extension("long_pages").overview(page)
    rows = [line.split("|")[2:5] for line in overview.splitlines() if line.startswith("| [")]
    assert len(rows) > 8
    ends = [line.rsplit("|", 2)[1].strip() for line in page.splitlines() if line.endswith(" |")]
    missed = ends.count("**no**") + ends.count("no")
    assert sum(int(row[0]) for row in rows) == ends.count("yes")
    assert sum(int(row[1]) for row in rows) == missed
    built = (site / "results.html").read_text("utf-8")
    assert 'id="overview"' in built


def test_long_tables_are_folded(extension, site):
    page = (site / "results" / "leaderboard.html").read_text("utf-8")
    folded = page.partition("<details><summary>Table of")[2]
    assert int(folded.split()[0]) > extension("long_pages").LONGEST
    assert page.count("<details>") == page.count("</details>")
