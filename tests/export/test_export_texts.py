"""Hostile names and licences of a checkpoint stay texts in every form; two memory blocks and two files of weights."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from pathlib import Path

import pytest
import yaml
from exporting import DEVICE, EQUAL, LANGUAGE, compile_for_board, make_export, run_on_board, sources_in
from markdown_it import MarkdownIt
from small_models import write_sensor

from colibri.boards.profile import BoardKind
from colibri.export.forms import FORMS
from colibri.export.model import read_model

NAMES = (
    'x"; DROP ${HOME} $(id) `id` <b>&amp; ]]> # [a](b) ![c](d) **e**',
    "a\nb=c\n---\nname: pwned\r\tx",
    "'{{ 7*7 }}' %s \\",
    "*" + "∕ int pwned; ∕" + "*",
)
LICENCE = 'MIT" </license> \n pwned: true'
CODE = ("CMakeLists.txt", "Makefile", "Kconfig", "prj.conf")
BARE = [form.name for form in FORMS if BoardKind.BARE in form.kinds]
READERS = {
    ".json": json.loads,
    ".yml": yaml.safe_load,
    ".yaml": yaml.safe_load,
    ".pdsc": xml.etree.ElementTree.fromstring,
}


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_hostile_names_stay_texts(tmp_path: Path, number: int) -> None:
    source = write_sensor(tmp_path / NAMES[number], license=LICENCE)
    for form in BARE:
        folder = make_export(tmp_path, form, source)
        model = read_model(tmp_path / "package")
        look_through(folder, model.prefix, model.title)
    assert_plain((tmp_path / "package/README.md").read_text(), model.title)


def assert_plain(markdown: str, title: str) -> None:
    """The text of a page is text, and says the title as it is."""
    lines = [token for token in MarkdownIt().parse(markdown) if token.type == "inline"]
    marks = {one.type for line in lines for one in line.children or ()}
    assert marks <= {"text", "text_special", "softbreak", "code_inline"}
    assert any(title.strip() in "".join(one.content for one in line.children or ()) for line in lines)


def look_through(folder: Path, prefix: str, title: str) -> None:
    """Files of data can be read, and where there is code nothing of the name is in it."""
    for path in folder.rglob("*"):
        if path.suffix in READERS and path.name[0] != ".":
            READERS[path.suffix](path.read_text())
        if path.name in CODE or path.suffix in (".cmake", ".S", ".ino"):
            text = path.read_text().replace(prefix, "").replace(prefix.upper(), "")  # made of the name, in safe letters
            code = re.sub(r"(?m)#.*$|/\*(?s:.*?)\*/|\"[^\"\n]*\"", "", text)
            assert not re.search(r"pwned|DROP|7\*7|\(id\)|`", code), path.name
    assert_plain((folder / "README.md").read_text(), title)
    if (folder / "library.properties").exists():
        lines = (folder / "library.properties").read_text().splitlines()
        assert len(lines) == 11 and all("=" in line for line in lines)
    assert "pwned: true" not in (folder / "LICENSE").read_text().splitlines()
    assert 'The checkpoint says of its licence: MIT" </license>' in (folder / "LICENSE").read_text()


@pytest.mark.parametrize("form", ["cmake", "stm32cubeide"])
def test_two_regions_and_two_files_of_weights(tmp_path: Path, form: str) -> None:
    folder = make_export(tmp_path, form, LANGUAGE, "stm32h750b-dk")
    assert (tmp_path / "package/hot.bin").is_file()
    includes = [f"-I{folder / name}" for name in ("include", "src", "example", "Inc", "Src")]
    main = folder / "example/main.c"
    if not main.exists():
        main = tmp_path / "main.c"
        main.write_text(
            '#include "mixtral_base_check.h"\nint puts(const char *);\n'
            f'int main(void) {{ const char *wrong = mixtral_base_check(); return puts(wrong ? wrong : "{EQUAL}"); }}\n'
        )
    sources = {*sources_in(folder), main}
    options = ["-Os", "-std=gnu11", "-ffunction-sections", "-DMIXTRAL_BASE_PLACED", f"-I{DEVICE}", *includes]
    objects = compile_for_board(tmp_path / "package", sorted(sources), options, tmp_path)
    assert EQUAL in run_on_board(tmp_path / "package", objects, tmp_path)
