"""The built site: complete, with working links, and without network requests."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

import graphtemper

FETCHED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "srcset",
    "video": "src",
    "audio": "src",
    "object": "data",
    "embed": "src",
}
KNOWN_LINKS = {"canonical", "search", "next", "prev", "index", "author"}


class Sheet(HTMLParser):
    """The resources, links and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.places = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.places |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "link" and set(attributes.get("rel", "").split()) & KNOWN_LINKS:
            return
        if attributes.get(FETCHED.get(tag)):
            self.loads.append(attributes[FETCHED[tag]])


@pytest.fixture(scope="module")
def sheets(site):
    return {path: Sheet(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def test_no_page_loads_from_a_network(sheets):
    count = 0
    for path, sheet in sheets.items():
        for address in sheet.loads:
            count += 1
            assert not re.match(r"(?:\w+:)?//", address), f"{path.name} loads {address}"
    assert count > 100


def test_no_style_or_script_loads_from_a_network(site):
    styles = list(site.rglob("*.css"))
    assert styles
    for path in styles:
        text = path.read_text("utf-8")
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", text), path.name
    for path in site.rglob("*.js"):
        assert "cdn." not in path.read_text("utf-8"), path.name


def test_links_inside_the_site_lead_somewhere(sheets):
    for path, sheet in sheets.items():
        for address in sheet.links:
            if re.match(r"\w+:", address):
                continue
            file, _, place = unquote(address).partition("#")
            goal = (path.parent / file).resolve() if file else path
            assert goal.exists(), f"{path.name} links to {address}"
            if place and goal in sheets and goal.name != "explore.html":
                assert place in sheets[goal].places, f"{path.name} links to {address}"


def test_important_pages_exist(site):
    pages = """index install how_good method gallery/index start/pyg_model
    start/logits_on_disk start/reading_the_paper theory
    theory/equations atlas audit results benchmarks architecture formats/card cli
    api/index howto/reading_a_verdict howto/labelling howto/monitoring howto/privacy
    howto/which_function howto/decisions explorer explore"""
    for name in pages.split():
        assert (site / f"{name}.html").is_file(), name


def test_the_method_page_is_printed(site):
    printed = site / "method.pdf"
    link = 'href="method.pdf"' in (site / "method.html").read_text("utf-8")
    assert link == printed.is_file()
    if link:
        assert printed.read_bytes().startswith(b"%PDF")


def test_the_left_bar_is_short(site):
    page = (site / "index.html").read_text("utf-8")
    bar = page.partition('class="sidebar-tree"')[2].partition("</div>")[0]
    assert 15 < bar.count("toctree-l1") <= 22
    assert bar.count('class="caption"') == 4


def test_the_header_names_the_version(site):
    page = (site / "index.html").read_text("utf-8")
    bar = page.partition('class="sidebar-brand-text"')[2].partition("</span>")[0]
    assert graphtemper.__version__ in bar


def test_every_page_has_a_twin_in_markdown_that_is_listed(site, sheets):
    listed = re.findall(r"\]\(([^)]+\.md)\)", (site / "llms.txt").read_text("utf-8"))
    assert len(listed) == len(set(listed)) > 60
    pages = {str(path.relative_to(site).with_suffix(".md")) for path in sheets}
    others = {"search.md", "explore.md", "leaderboard.md"}
    assert {name for name in pages - others if not name.startswith("_")} == set(listed)
    for name in listed:
        assert (site / name).read_text("utf-8").lstrip().startswith(("#", "!")), name
    start = (site / "start" / "logits_on_disk.md").read_text("utf-8")
    assert "```python" in start
    assert "with the model " in start  # what an example has printed
    assert "](../results/leaderboard.md)" in start
    table = (site / "formats" / "errors.md").read_text("utf-8")
    assert "| --- | ---" in table


def test_every_public_name_has_a_page_with_content(site):
    for name in {*graphtemper.__all__, "pyg"}:
        page = (site / "api" / "generated" / f"graphtemper.{name}.html").read_text("utf-8")
        assert 'class="py ' in page, name


def test_formulas_are_mathml(site):
    page = (site / "theory" / "slope.html").read_text("utf-8")
    assert page.count("<math") > 10
    assert "\\frac" not in re.sub(r"<annotation.*?</annotation>", "", page)


def test_the_equations_are_links(site):
    page = (site / "theory" / "equations.html").read_text("utf-8")
    assert "graphtemper.theory.html#graphtemper.theory.slope" in page
    assert page.count('class="reference internal"') > 20


def test_bars_in_docstrings_are_text(extension):
    escaped = extension("docstring_text").escaped
    assert escaped("|x| of ``a | b``, `c|d`") == r"\|x\| of ``a | b``, `c|d`"
    assert escaped(r"already \|x\|") == r"already \|x\|"
