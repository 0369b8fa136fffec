"""The README's transcript is what the commands print."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.cli import main
from colibri.footprint.attribute import GroupKind
from colibri.footprint.report import make_report
from colibri.graph.ops import Router

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMPILER = "12.2"  # that the sizes and instruction counts of the pages were measured with
CORES = {
    "nucleo-h743zi": "on Cortex-M4 and M7",
    "mps3-an547": "on M55",
    "stm32f205": "on M3",
    "raspberry-pi-pico": "on M0+",
    "riscv-virt-rv32imac": "on RV32",
    "riscv-virt-rv64gcv": "with RISC-V vectors of 128 bits",
    "raspberry-pi-5": "on Cortex-A76",
}


def transcript() -> dict[str, tuple[list[str], str]]:
    """Verb to its arguments and what it printed, from the console blocks."""
    found = {}
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for command, output in re.findall(r"^\$ (colibri [^\n]*)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE):
            words = shlex.split(command.replace("$'", "'").replace("\\n", "\n"))[1:]
            found[words[0]] = (words, output)
    return found


def without_counts(text: str) -> str:
    return re.sub(r"\d[\d,]* instructions", "N instructions", text)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command of the transcript prints now."""
    package = tmp_path_factory.mktemp("demo") / "package"
    outputs = {}
    for verb, (words, _) in transcript().items():
        arguments = [str(package) if word == "build/demo" else word for word in words]
        arguments = [str(ROOT / word) if word.startswith("examples/") else word for word in arguments]
        with pytest.MonkeyPatch.context() as patch:
            lines: list[str] = []
            patch.setattr("click.echo", lambda text="", nl=True, **_: lines.append(f"{text}\n" if nl else str(text)))  # noqa: B023
            assert main(arguments) == 0
        outputs[verb] = "".join(lines)
    outputs["report"] = (package / "build/product.usage").read_text()
    regions = {
        region.name: {group.kind: group.bytes for group in region.groups} for region in make_report(package).regions
    }
    flash, states = regions["flash"], sum(groups.get(GroupKind.STATES, 0) for groups in regions.values())
    outputs["picture"] = (
        f"code {flash[GroupKind.CODE]:,} bytes, weights {flash[GroupKind.WEIGHTS]:,} bytes by layer and expert, "
        f"states {states:,} bytes"
    )
    return outputs


def test_the_transcript_has_the_three_commands() -> None:
    assert list(transcript()) == ["build", "run", "test"]


def test_the_examples_are_counted() -> None:
    numbers = {"One": 1, "two": 2, "three": 3, "four": 4}
    said = re.search(r"(\w+) language models? and (\w+) sensor models? are in \[examples\]", README)
    assert said is not None
    folders = [Checkpoint.open(path.parent) for path in sorted((ROOT / "examples").rglob("config.json"))]
    families = [import_graph(folder, ImportOptions()).family for folder in folders]
    assert [families.count("mixtral"), families.count("moe_mlp")] == [numbers[word] for word in said.groups()]


def test_figures_of_the_dot_products_are_those_of_their_page() -> None:
    """`CORES` names each core as the README does, and a board of docs/kernels.md that has it."""
    page = (ROOT / "docs/kernels.md").read_text(encoding="utf-8").split("<!-- begin: ci/token")[0]
    rows = re.findall(r"^\| (\S+) \| [^|]+ \| (w[48]a8) \| [^|]+ \| [^|]+ \| ([\d.]+) ", page, re.MULTILINE)
    sums = {(board, scheme): figure for board, scheme, figure in rows}
    (said,) = re.findall(r"^- \*\*Dot products .*?\n(?=- )", README, re.DOTALL | re.MULTILINE)
    said = " ".join(said.split())
    for board, words in CORES.items():
        assert f"{sums[board, 'w8a8']} {words}" in said
    assert sums["stm32f405", "w8a8"] == sums["nucleo-h743zi", "w8a8"]
    assert f"({max(sums['stm32f405', 'w4a8'], sums['nucleo-h743zi', 'w4a8'])} in `w4a8`)" in said
    assert len(re.findall(r"\d\.\d\d", said)) == len(CORES) + 1


def test_the_last_position_takes_what_the_page_on_profiles_says() -> None:
    page = (ROOT / "docs/profile.md").read_text(encoding="utf-8")
    said = re.search(r"At position (\d+), .*? takes ([\d,]+) instructions", " ".join(README.split()))
    assert said is not None
    demo = page.split("| shakespeare-moe, w4a8, nucleo-h743zi ")[1].splitlines()[1]
    assert demo.startswith(f"| | position {said[1]} | {said[2]} |")
    int8 = page.split("| shakespeare-moe, w4a8, keys and values in int8, nucleo-h743zi ")[1].splitlines()[1]
    said_of_int8 = re.search(r"or ([\d,]+) with `--kv int8`", README)
    assert said_of_int8 is not None
    assert int8.startswith(f"| | position {said[1]} | {said_of_int8[1]} |")


def test_the_page_of_the_examples_has_their_parameters() -> None:
    page = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "examples/load-moe").iterdir()):
        graph = import_graph(Checkpoint.open(path), ImportOptions())
        row = re.search(
            rf"^\| `load-moe/{path.name}/` \| .*? ([\d,]+) parameters, (\d) experts, (\d) runs?\b", page, re.M
        )
        assert row is not None
        router = next(op for op in graph.ops if isinstance(op, Router))
        assert (int(row[1].replace(",", "")), int(row[2]), int(row[3])) == (
            graph.parameters(),
            router.num_experts,
            router.top_k,
        )


@pytest.mark.emulator
def test_the_verse(printed: dict[str, str]) -> None:
    assert printed["run"] == transcript()["run"][1].rstrip("\n") + "\n"


@pytest.mark.emulator
def test_cases_outputs_and_digest(printed: dict[str, str]) -> None:
    assert without_counts(printed["test"]) == without_counts(transcript()["test"][1])


@pytest.mark.emulator
def test_instructions_and_sizes_with_the_compiler_of_the_page(printed: dict[str, str]) -> None:
    version = subprocess.run(["arm-none-eabi-gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    if not version.startswith(COMPILER):
        pytest.skip(f"the page was measured with gcc {COMPILER}, this is {version.strip()}")
    assert printed["test"] == transcript()["test"][1]
    flash = re.search(r"flash:\s+(\d+) B", printed["report"])
    assert flash is not None
    picture = (ROOT / "docs/report.svg").read_text(encoding="utf-8")
    assert f"{int(flash[1]):,} of 2,097,152" in picture.replace("&#160;", " ")
    assert printed["picture"] in " ".join(README.split())
