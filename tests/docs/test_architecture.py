"""The architecture page names the packages that exist, and tests that exist."""

import re

import pytest


@pytest.fixture(scope="module")
def page(docs):
    return (docs / "architecture.md").read_text("utf-8")


def described(page, heading):
    """Return the names that a section of the page has a paragraph for."""
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^`(\w+)`\n:", section, flags=re.M))


def packages(folder):
    """Return the packages and modules of a folder, without entry points."""
    return {
        path.stem
        for path in folder.iterdir()
        if (path / "__init__.py").is_file() or path.suffix == ".py"
    } - {"__init__", "__main__"}


@pytest.mark.parametrize(
    ("heading", "folder"),
    [
        ("The library", "src/graphtemper"),
        ("The research package", "research/src/graphtemper_research"),
    ],
)
def test_every_package_has_a_paragraph(page, docs, heading, folder):
    assert described(page, heading) == packages(docs.parent / folder)


def test_the_layers_are_those_of_the_contract(page, docs):
    import tomllib

    config = tomllib.loads((docs.parent / "pyproject.toml").read_text("utf-8"))
    contracts = config["tool"].get("importlinter", {}).get("contracts", [])
    layers = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    if not layers:
        pytest.skip("there is no layers contract")
    printed = re.findall(r"^ {6}(\w[\w |]*)$", page, flags=re.M)
    assert [printed] == [[layer for layer in chain if layer != "__main__"] for chain in layers]


def test_modules_that_the_page_names_exist(page, docs):
    for path in set(re.findall(r"`(\w+/\w+\.py)`", page)):
        assert any((docs.parent / place / path).is_file() for place in ("src/graphtemper", "."))
