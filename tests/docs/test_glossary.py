"""The glossary stays short and is linked from the start page."""

import re


def test_the_glossary_has_at_most_15_terms(docs):
    page = (docs / "glossary.md").read_text("utf-8")
    (block,) = re.findall(r"```\{glossary\}\n(.*?)```", page, flags=re.S)
    terms = re.findall(r"^(\S.*)\n  \S", block, flags=re.M)
    assert 5 < len(terms) <= 15
    assert len(set(terms)) == len(terms)


def test_the_start_page_links_to_it(docs):
    assert "(glossary.md)" in (docs / "index.md").read_text("utf-8")
