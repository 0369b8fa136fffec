"""The CMSIS-Pack: what its description lists is there, builds and runs; odd names are valid by a schema too."""

from __future__ import annotations

import xml.etree.ElementTree
import zipfile
from pathlib import Path

import pytest
import xmlschema
from exporting import DEVICE, EQUAL, LANGUAGE, SENSOR, compile_for_board, make_export, run_on_board
from small_models import PORTABLE_BOARD, make_package, write_sensor

from colibri.export.form import Label

SCHEMA = Path(__file__).parent / "cmsis_pack/written.xsd"


def unpacked(folder: Path) -> tuple[Path, xml.etree.ElementTree.Element]:
    (pack,) = folder.glob("*.pack")
    inside = folder.parent / "unpacked"
    with zipfile.ZipFile(pack) as archive:
        assert archive.testzip() is None
        archive.extractall(inside)
    (description,) = inside.glob("*.pdsc")
    assert description.read_bytes() == (folder / description.name).read_bytes()
    xmlschema.XMLSchema(SCHEMA).validate(description)
    root = xml.etree.ElementTree.parse(description).getroot()
    vendor, name = root.findtext("vendor"), root.findtext("name")
    (release,) = root.iterfind("releases/release")
    assert pack.name == f"{vendor}.{name}.{release.get('version')}.pack" and description.name == f"{vendor}.{name}.pdsc"
    return inside, root


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_its_component_builds_and_runs(tmp_path: Path, source: Path) -> None:
    inside, root = unpacked(make_export(tmp_path, "cmsis-pack", source))
    files = root.findall("components/component/files/file")
    assert all((inside / file.attrib["name"]).exists() for file in files)
    includes = [f"-I{inside / file.attrib['name']}" for file in files if file.get("category") == "include"]
    sources = [inside / file.attrib["name"] for file in files if file.get("category") == "source"]
    objects = compile_for_board(tmp_path / "package", sources, ["-Os", *includes, f"-I{DEVICE}"], tmp_path)
    assert EQUAL in run_on_board(tmp_path / "package", objects, tmp_path)


def test_odd_names_and_texts_are_valid(tmp_path: Path) -> None:
    hostile = write_sensor(tmp_path / "a<b> & ]]> \"q\" 'x' --")
    label = Label("1.2.3", "Example-Motors", "https://example.com/a?b=1")
    _, root = unpacked(make_export(tmp_path, "cmsis-pack", hostile, label=label))
    assert "a<b> & ]]> \"q\" 'x' --" in (root.findtext("description") or "")


def test_long_names_are_valid_and_stay_apart(tmp_path: Path) -> None:
    components = set()
    for end in "ab":
        folder = tmp_path / end
        make_package(SENSOR, folder / "package", PORTABLE_BOARD, prefix="p" * 39 + end)
        _, root = unpacked(make_export(folder, "cmsis-pack"))
        (component,) = root.iterfind("components/component")
        components.add(component.get("Csub"))
    assert len(components) == 2
