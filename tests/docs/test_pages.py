"""Pages are true to the tree: folders that docs/architecture.md lists, and every link of every page."""

from __future__ import annotations

import re
import xml.etree.ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "runtime_c/SPEC.md", ROOT / "README.md"])


def listed_folders() -> set[str]:
    """Paths of the listing under "Folders": two more columns of indentation go one folder down."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## Folders\n")[1].split("\n## ")[0]
    found: set[str] = set()
    above: list[str] = []
    for indent, name in re.findall(r"^    ( *)([\w./]+)/ ", text, re.M):
        above = [*above[: len(indent) // 2], name]
        found.add("/".join(above))
    return found


def test_the_listing_of_folders_is_true() -> None:
    listed = listed_folders()
    assert len(listed) > 15
    assert [name for name in sorted(listed) if not (ROOT / name).is_dir()] == []
    packages = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("codegen/colibri/**/__init__.py")}
    assert packages <= listed


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).is_file() or (target.endswith("/") and (page.parent / target).is_dir()), target
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", text):
        assert anchor in anchors((page.parent / target).read_text(encoding="utf-8") if target else text), anchor
    for target in re.findall(r"`((?:codegen|runtime_c|templates|boards|tests|ci|docs)/[\w./]+)`", text):
        assert (ROOT / target).exists() or "X" in target, target


def test_the_picture_is_well_formed() -> None:
    root = xml.etree.ElementTree.parse(ROOT / "docs/architecture.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
