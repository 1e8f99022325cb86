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


def test_every_public_name_has_a_page_with_content(site):
    for name in {*graphtemper.__all__, "pyg"}:
        page = (site / "api" / "generated" / f"graphtemper.{name}.html").read_text("utf-8")
        assert 'class="py ' in page, name


def test_formulas_are_mathml(site):
    page = (site / "theory" / "slope.html").read_text("utf-8")
    assert page.count("<math") > 10
    assert "\\frac" not in re.sub(r"<annotation.*?</annotation>", "", page)


def test_bars_in_docstrings_are_text(extension):
    escaped = extension("docstring_text").escaped
    assert escaped("|x| of ``a | b``, `c|d`") == r"\|x\| of ``a | b``, `c|d`"
    assert escaped(r"already \|x\|") == r"already \|x\|"


def test_llms_txt_lists_pages_that_exist(site):
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text("utf-8"))
    assert len(listed) > 60
    assert all((site / name).is_file() for name in listed)
