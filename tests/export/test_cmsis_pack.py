"""The CMSIS-Pack: what its description lists is there, builds and runs; its names are those that PACK.xsd allows."""

from __future__ import annotations

import re
import xml.etree.ElementTree
import zipfile
from pathlib import Path

import pytest
from exporting import DEVICE, EQUAL, LANGUAGE, SENSOR, compile_for_board, make_export, run_on_board
from small_models import write_sensor

from colibri.export.form import Label

# PACK.xsd 1.7.32 of the Open-CMSIS-Pack project, by which packages of both models were found valid.
TOP = {
    "vendor",
    "name",
    "description",
    "url",
    "license",
    "releases",
    "keywords",
    "conditions",
    "taxonomy",
    "components",
}
CATEGORIES = {"doc", "include", "header", "source"}


def unpacked(folder: Path) -> tuple[Path, xml.etree.ElementTree.Element]:
    (pack,) = folder.glob("*.pack")
    inside = folder.parent / "unpacked"
    with zipfile.ZipFile(pack) as archive:
        assert archive.testzip() is None
        archive.extractall(inside)
    (description,) = inside.glob("*.pdsc")
    assert description.read_bytes() == (folder / description.name).read_bytes()
    root = xml.etree.ElementTree.parse(description).getroot()
    vendor, name = root.findtext("vendor"), root.findtext("name")
    (release,) = root.iterfind("releases/release")
    assert pack.name == f"{vendor}.{name}.{release.get('version')}.pack" and description.name == f"{vendor}.{name}.pdsc"
    return inside, root


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_its_component_builds_and_runs(tmp_path: Path, source: Path) -> None:
    inside, root = unpacked(make_export(tmp_path, "cmsis-pack", source))
    assert {element.tag for element in root} == TOP and len(root) == len(TOP)
    files = root.findall("components/component/files/file")
    assert {file.get("category") for file in files} == CATEGORIES
    assert all((inside / file.attrib["name"]).exists() for file in files)
    includes = [f"-I{inside / file.attrib['name']}" for file in files if file.get("category") == "include"]
    sources = [inside / file.attrib["name"] for file in files if file.get("category") == "source"]
    objects = compile_for_board(tmp_path / "package", sources, ["-Os", *includes, f"-I{DEVICE}"], tmp_path)
    assert EQUAL in run_on_board(tmp_path / "package", objects, tmp_path)


def test_names_and_texts_are_what_the_schema_allows(tmp_path: Path) -> None:
    hostile = write_sensor(tmp_path / "a<b> & ]]> \"q\" 'x' --")
    label = Label("1.2.3", "Example-Motors", "https://example.com/a?b=1")
    _, root = unpacked(make_export(tmp_path, "cmsis-pack", hostile, label=label))
    assert "a<b> & ]]> \"q\" 'x' --" in (root.findtext("description") or "")
    assert len(root.findtext("description") or "") <= 256
    for element in ("vendor", "name"):
        assert re.fullmatch(r"[\-_A-Za-z0-9]+", root.findtext(element) or "")
    (component,) = root.iterfind("components/component")
    assert component.get("condition") in {one.get("id") for one in root.iterfind("conditions/condition")}
    assert all(re.fullmatch(r"[\w -]{2,}", component.attrib[key]) for key in ("Cclass", "Cgroup"))
