"""`colibri export --to npm` and `--to page`: installed and imported as a user of Node would."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from exporting import ENCODER, SENSOR, everything, make_export, succeed
from small_models import ROOT, make_package

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.checkpoint.tokenizer import load_tokenizer
from colibri.errors import UsageError
from colibri.export.export import export
from colibri.export.form import Label
from colibri.export.web_script import js_literal
from colibri.export.web_text import words_of
from colibri.footprint.wasm import read_module
from colibri.graph.graph import StateType
from colibri.graph.interpret import Reference
from colibri.graph.scheme import Scheme
from colibri.package import load_package
from colibri.passes.quantise import quantise_graph
from colibri.testing import read_cases

SHAKESPEARE = ROOT / "examples/shakespeare-moe"
TEXTS = (
    "KING RICHARD:\nNow is the winter of our discontent",
    "  two  spaces,\n\n\tand tabs \n",
    "I'll, we've; don't 1234 x5",
    "Grüße, 東京 🐦 naïve",
    "",
)
ASK = """\
import { createHash } from "node:crypto";
const digest = createHash("sha256");
for (const [op, words] of requests) {
  for (const one of op === "S" ? words.map((word) => [word]) : [words]) {
    const [status, bytes] = model.ask(op, one);
    if (op !== "I") {
      digest.update(new Uint8Array(Int32Array.of(status).buffer)).update(bytes);
    }
  }
}
"""

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


def install(folder: Path, exported: Path) -> str:
    """Pack, install the archive into a project of one's own without a network; returns the package's name."""
    command = ["npm", "pack", "--json", str(exported.resolve())]
    packed = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)[0]
    project = folder / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}')
    options = ("--offline", "--no-audit", "--no-fund", "--no-save")
    succeed("npm", "install", *options, (folder / packed["filename"]).resolve(), cwd=project)
    return str(packed["name"])


def node(folder: Path, script: str) -> dict[str, object]:
    """What a script prints as JSON in the project."""
    (folder / "project/main.js").write_text(script)
    found = json.loads(succeed("node", "main.js", cwd=folder / "project"))
    assert isinstance(found, dict)
    return found


def golden(package: Path) -> tuple[str, str]:
    """The requests as JavaScript, and the digest of the reference's answers."""
    cases = [case for case in read_cases(package) if case.op != "V"]
    requests = [(case.op, struct.unpack(f"<{len(case.payload) // 4}I", case.payload)) for case in cases]
    answers = [answer for case in cases if case.op != "I" for answer in case.answers]
    whole = b"".join(struct.pack("<i", one.status) + one.payload for one in answers)
    return f"const requests = {json.dumps(requests)};\n", hashlib.sha256(whole).hexdigest()


def test_a_model_with_an_encoder_in_node(tmp_path: Path) -> None:
    name = install(tmp_path, make_export(tmp_path, "npm", ENCODER, "wasm32"))
    requests, digest = golden(tmp_path / "package")
    script = f"""\
import {{ facts, init }} from "{name}";
const model = await init();
{requests}{ASK}
const said = {{ digest: digest.digest("hex"), facts, made: [...model.generate([17, 4, 99], {{ count: 5 }})] }};
try {{
  model.encode(Array(25).fill(1));
}} catch (error) {{
  said.refused = error.message;
}}
console.log(JSON.stringify(said));
"""
    said = node(tmp_path, script)
    assert said["digest"] == digest
    assert said["refused"] == "25 tokens, and the source has 24"
    reference = Reference(import_graph(Checkpoint.open(ENCODER), ImportOptions(20, StateType.I8, source=24)))
    quantise_graph(reference.graph, Scheme.W8A8)
    reference.encode(np.array([17, 4, 99]))
    tokens = [reference.graph.start]
    for _ in range(5):
        tokens.append(int(reference.extend(np.array(tokens[-1:]))[0].argmax()))
    assert said["made"] == tokens[1:]
    with pytest.raises(UsageError, match="no call for the encoder of this model; for that there are npm"):
        export(tmp_path / "package", "page", Label(), tmp_path / "page")


@pytest.mark.parametrize(("board", "kv"), [("wasm32", StateType.F32), ("wasm32-simd128", StateType.I8)])
def test_a_language_model_in_node(board: str, kv: StateType, tmp_path: Path) -> None:
    package = tmp_path / "package"
    make_package(SHAKESPEARE, package, board, scheme=Scheme.W4A8, kv=kv, prefill=4, context=48)
    export(package, "npm", Label("1.2.3", "Example"), tmp_path / "npm")
    name = install(tmp_path, tmp_path / "npm")
    assert name == "shakespeare-moe-model"
    requests, digest = golden(package)
    script = f"""\
import {{ decode, encode, facts, init }} from "{name}";
const model = await init();
model.verify();
{requests}{ASK}
const prompt = requests.at(-4)[1];
const said = {{ digest: digest.digest("hex"), facts, memory: model.memoryBytes }};
said.tokens = [...model.generate(prompt)];
said.fewer = [...model.generate(prompt, {{ count: 5 }})];
let chances = 0;
said.drawn = [...model.generate(prompt, {{ count: 5, temperature: 1, random: () => (chances += 0.19) }})];
said.encoded = {json.dumps(TEXTS)}.map(encode);
said.decoded = said.encoded.map(decode);
said.refused = [[], [512], [-1], [1.5], Array(49).fill(1)].map((tokens) => {{
  try {{
    model.reset();
    model.prefill(tokens);
  }} catch (error) {{
    return error.message;
  }}
}});
console.log(JSON.stringify(said));
"""
    said = node(tmp_path, script)
    assert said["digest"] == digest
    prompt, greedy = read_cases(package)[-4:-2]
    assert (prompt.op, greedy.op) == ("P", "S")
    expected = list(struct.unpack(f"<{len(greedy.payload) // 4}I", greedy.payload))
    tokens = said["tokens"]
    assert isinstance(tokens, list)
    assert tokens[: len(expected)] == expected  # what the reference writes
    assert len(tokens) == len(expected) + 1  # one more, which needs no position
    assert said["fewer"] == tokens[:5]
    assert said["drawn"] != tokens[:5]
    words = load_tokenizer(package)
    assert said["encoded"] == [words.encode(text) for text in TEXTS]
    assert said["decoded"] == list(TEXTS)
    assert said["refused"] == [
        "a pointer is null, a count is zero, or the context was freed",
        *(f"{token} is no token of the vocabulary of 512" for token in ("512", "-1", "1.5")),
        "49 tokens, and the context has 48",
    ]
    assert said["memory"] == read_module(tmp_path / "npm/model.wasm").memory
    assert "wasm" not in str(said["facts"])


def test_a_sensor_model_in_node(tmp_path: Path) -> None:
    exported = make_export(tmp_path, "npm", SENSOR, "wasm32")
    name = install(tmp_path, exported)
    requests, digest = golden(tmp_path / "package")
    script = f"""\
import {{ facts, init }} from "{name}";
import {{ readFile }} from "node:fs/promises";
import {{ createRequire }} from "node:module";
const model = await init(readFile(createRequire(import.meta.url).resolve("{name}/model.wasm")));
{requests}{ASK}
const bits = requests.find(([op]) => op === "F")[1];
const samples = new Float32Array(Uint32Array.from(bits).buffer);
const outputs = model.forward(samples);
let refused = "";
try {{
  model.forward([1]);
}} catch (error) {{
  refused = error.message;
}}
console.log(JSON.stringify({{ digest: digest.digest("hex"), facts, outputs: [...outputs], refused }}));
"""
    said = node(tmp_path, script)
    assert said["digest"] == digest
    first = next(case for case in read_cases(tmp_path / "package") if case.op == "F").answers[0].payload
    assert said["outputs"] == list(struct.unpack(f"<{len(first) // 4}f", first))
    inputs = load_package(tmp_path / "package").model.inputs
    assert said["refused"] == f"1 floats, expected {inputs}"


def test_an_export_is_the_same_every_time_and_imports_nothing(tmp_path: Path) -> None:
    exported = make_export(tmp_path, "npm", SENSOR, "wasm32")
    before = everything(exported)
    export(tmp_path / "package", "npm", Label(), exported)
    assert everything(exported) == before
    names = [section.name for section in read_module(exported / "model.wasm").sections]
    assert "import" not in names
    assert not any(str(tmp_path).encode() in content for content in before.values())


@pytest.mark.parametrize(
    ("form", "board", "message"),
    [
        (
            "npm",
            "x86-64-v3",
            "--to npm: is for wasm boards, this package is for x86-64-v3 (linux); for that there are cmake",
        ),
        (
            "cmake",
            "wasm32",
            "--to cmake: is for bare, linux, windows boards, this package is for wasm32 (wasm); for that there are npm",
        ),
        ("page", "wasm32", "--to page: needs a language model with a tokenizer.json of byte-level BPE; try --to npm"),
    ],
)
def test_forms_for_other_packages_are_refused(form: str, board: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        make_export(tmp_path, form, SENSOR, board)
    assert str(caught.value).startswith(message)
    assert not (tmp_path / form).exists()


def test_a_page_has_its_texts_escaped(tmp_path: Path) -> None:
    package = tmp_path / "package"
    make_package(SHAKESPEARE, package, "wasm32", scheme=Scheme.W4A8, context=16)
    hostile = '"><script>alert(1)</script>'
    export(package, "page", Label(prompts=("The", hostile)), tmp_path / "page")
    text = (tmp_path / "page/index.html").read_text(encoding="utf-8")
    assert hostile not in text
    assert text.count("<script") == text.count("</script>") == 2
    assert text.endswith("</html>\n")
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    export(package, "page", Label(prompts=("The", hostile)), tmp_path / "again")
    assert everything(tmp_path / "again") == everything(tmp_path / "page")
    assert str(tmp_path) not in text
    with pytest.raises(UsageError, match="--prompt"):
        Label(prompts=("two\nlines",))


def test_only_tokenizers_that_the_script_knows_are_taken() -> None:
    raw = json.loads((SHAKESPEARE / "tokenizer.json").read_text())
    assert words_of(json.dumps(raw).encode(), 512) is not None
    changes: list[tuple[str, object]] = [
        ("normalizer", {"type": "NFC"}),
        ("pre_tokenizer", {"type": "Whitespace"}),
        ("decoder", {"type": "WordPiece"}),
        ("model", {**raw["model"], "type": "Unigram"}),
        ("model", {**raw["model"], "byte_fallback": True}),
        ("model", "nonsense"),
        ("added_tokens", [{"id": 0, "content": "x", "special": False}]),
    ]
    for key, value in changes:
        assert words_of(json.dumps({**raw, key: value}).encode(), 512) is None, key
    assert words_of(json.dumps(raw).encode(), 100) is None  # tokens that the model does not know
    assert words_of(b"[" * 5000, 512) is None
    assert words_of(None, 512) is None


def test_a_literal_ends_no_script() -> None:
    assert js_literal({"a": "</script>\u2028"}) == '{"a":"\\u003c/script\\u003e\\u2028"}'
