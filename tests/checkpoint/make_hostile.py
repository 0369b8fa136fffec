"""Checkpoints that somebody made to do harm, in every form; and a writer of PyTorch's files that needs no PyTorch."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from make_bad import CONFIG, INDEX, Arrays, tiny_mixtral, write_checkpoint, write_raw

# ---- a pickle, instruction by instruction ----


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def integer(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def group(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def table(**items: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


def tensor(
    *,
    key: str = "0",
    kind: str = "FloatStorage",
    count: int = 6,
    offset: int = 0,
    shape: tuple[int, ...] = (2, 3),
    strides: tuple[int, ...] = (3, 1),
) -> bytes:
    storage = group(text("storage"), name("torch", kind), text(key), text("cpu"), integer(count)) + b"Q"
    sizes = (group(*map(integer, shape)), group(*map(integer, strides)))
    hooks = name("collections", "OrderedDict") + b")R"
    return name("torch._utils", "_rebuild_tensor_v2") + group(storage, integer(offset), *sizes, b"\x89", hooks) + b"R"


def torch_zip(
    file: Path, pickled: bytes, storages: dict[str, bytes] | None = None, *, method: int = zipfile.ZIP_STORED,
    order: str = "little", **more: bytes,
) -> None:  # fmt: skip
    """Write an archive as torch.save lays it out."""
    storages = {"0": bytes(24)} if storages is None else storages
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("m/data.pkl", b"\x80\x02" + pickled)
        archive.writestr("m/byteorder", order)
        for key, raw in storages.items():
            archive.writestr(f"m/data/{key}", raw)
        for entry, raw in more.items():
            archive.writestr(f"m/{entry}", raw)


def write_torch(file: Path, arrays: Arrays) -> None:
    """Write fp32 arrays as a state_dict."""
    tensors, storages = {}, {}
    for number, (key, values) in enumerate(arrays.items()):
        strides = tuple(step // 4 for step in values.strides)
        tensors[key] = tensor(key=str(number), count=values.size, shape=values.shape, strides=strides)
        storages[str(number)] = np.asarray(values, np.float32).tobytes("A")  # as they lie in memory
    torch_zip(file, table(**tensors) + b".", storages)


# ---- cases ----

Build = Callable[[Path], Path]


@dataclass(frozen=True)
class Hostile:
    """Attributes:
    name: of the case.
    words: what the one line of error holds.
    build: writes it into an existing folder, and returns what the user would name.
    """

    name: str
    words: str
    build: Build


def _torch(
    pickled: bytes, storages: dict[str, bytes] | None = None, edit: Callable[[bytes], bytes] = bytes, **more: Any
) -> Build:
    def build(folder: Path) -> Path:
        (folder / "config.json").write_text(json.dumps(CONFIG))
        file = folder / "model.pt"
        torch_zip(file, pickled, storages, **more)
        file.write_bytes(edit(file.read_bytes()))
        return file

    return build


def _weights(**changes: Any) -> Build:
    return _torch(table(w=tensor(**changes)) + b".")


def _call(module: str, attribute: str, *arguments: str) -> Build:
    return _torch(name(module, attribute) + group(*map(text, arguments)) + b"R.")


def _bomb(raw: bytes) -> bytes:
    """A small archive whose pickle is deflated from 40 MB."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", bytes(40_000_000))
    return out.getvalue()


def _end(count: int, size: int, begin: int) -> Callable[[bytes], bytes]:
    """Put other numbers at the end of the archive."""
    return lambda raw: raw[:-14] + struct.pack("<HHIIH", count, count, size, begin, 0)


def _end64(count: int, size: int, begin: int, place: int | None = None) -> Callable[[bytes], bytes]:
    def edit(raw: bytes) -> bytes:
        at = len(raw) - 22
        record = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, begin)
        locator = struct.pack("<4sIQI", b"PK\6\7", 0, at if place is None else place, 1)
        return raw[:at] + record + locator + _end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)(raw[at:])

    return edit


def _replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda raw: raw.replace(old, new)


def _llama2c(edit: Callable[[bytes], bytes] = bytes, version: int = 1, **numbers: int) -> Build:
    """A file of one layer, of which the header then says something else."""

    def build(folder: Path) -> Path:
        named = {"dim": 8, "hidden": 4, "layers": 1, "heads": 2, "kv": 1, "vocab": 5, "positions": 4} | numbers
        head = struct.pack(
            "<4si7iBi", b"24ka", version, *list(named.values())[:7], named.get("flag", 1), named.get("group", 4)
        )
        values = 3 * 8 + 5 * 8 + 2 * 64 + 2 * 32 + 3 * 32
        file = folder / "m.bin"
        file.write_bytes(edit(head.ljust(256, b"\0") + bytes(4 * values)))
        return file

    return build


def _words(raw: bytes) -> Build:
    def build(folder: Path) -> Path:
        (folder / "tokenizer.bin").write_bytes(struct.pack("<I", 9) + raw)
        return _llama2c()(folder)

    return build


def _entry(piece: bytes, score: float = 0.0, length: int | None = None) -> bytes:
    return struct.pack("<fI", score, len(piece) if length is None else length) + piece


def _header(header: Any, data: bytes = b"") -> Build:
    def build(folder: Path) -> Path:
        (folder / "config.json").write_text(json.dumps(CONFIG))
        write_raw(folder / "model.safetensors", header, data)
        return folder

    return build


def _stranger(tensor_name: str) -> Build:
    def build(folder: Path) -> Path:
        write_checkpoint(folder, arrays=tiny_mixtral() | {tensor_name: np.ones(2, np.float32)})
        return folder

    return build


def _config(raw: str | dict[str, Any]) -> Build:
    def build(folder: Path) -> Path:
        write_checkpoint(folder)
        (folder / "config.json").write_text(raw if isinstance(raw, str) else json.dumps(CONFIG | raw))
        return folder

    return build


def _index(file: str, weight_map: Any, ask: str = "") -> Build:
    def build(folder: Path) -> Path:
        (folder / "config.json").write_text(json.dumps(CONFIG))
        (folder / file).write_text(json.dumps({"weight_map": weight_map}))
        return folder / ask if ask else folder

    return build


def _sparse(folder: Path) -> Path:
    """A header of 2 GB of nothing."""
    (folder / "config.json").write_text("{}")
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 2 << 30))
        file.truncate(3 << 30)
    return folder


def _sparse_torch(folder: Path) -> Path:
    (folder / "config.json").write_text("{}")
    with (folder / "model.pt").open("wb") as file:
        file.write(b"PK\3\4")
        file.truncate(8 << 30)
    return folder / "model.pt"


_SIZE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
_ADD_LIST = b"]q\0" + b"(" + b"h\0" * 1000 + b"e"
_PIECES = b"".join(_entry(piece) for piece in (b"<unk>", b"\n<s>\n", b"\n</s>\n", b"a"))

CASES = (
    # PyTorch's pickles: code, and what would take memory or time
    Hostile("os-system", "asks for 'os.system'", _call("os", "system", "id")),
    Hostile("posix-system", "asks for 'posix.system'", _call("posix", "system", "id")),
    Hostile("builtins-eval", "asks for 'builtins.eval'", _call("builtins", "eval", "1")),
    Hostile("builtins-getattr", "asks for 'builtins.getattr'", _call("builtins", "getattr", "a", "b")),
    Hostile("subprocess", "asks for 'subprocess.Popen'", _call("subprocess", "Popen", "id")),
    Hostile("stack-global", "asks for 'os.system'",
            _torch(text("os") + text("system") + b"\x93" + group(text("id")) + b"R.")),
    Hostile("dotted-global", "asks for 'torch.FloatStorage.__class__'", _call("torch", "FloatStorage.__class__")),
    Hostile("torch-load", "asks for 'torch.load'", _call("torch", "load", "x")),
    Hostile("name-of-a-terminal", r"asks for 'a\x1b[31m.b'", _call("a\x1b[31m", "b")),
    Hostile("call-of-a-storage", "calls 'torch.FloatStorage'", _call("torch", "FloatStorage", "x")),
    Hostile("instance", "instruction 0x69", _torch(b"(ios\nsystem\n.")),
    Hostile("new-object", "instruction 0x81", _torch(name("collections", "OrderedDict") + b")\x81.")),
    Hostile("extension-registry", "instruction 0x82", _torch(b"\x82\x01.")),
    Hostile("old-string", "instruction 0x53", _torch(b"S'a'\n.")),
    Hostile("build-of-a-tensor", "cut off or damaged", _torch(tensor() + b"}b.")),
    Hostile("memo-of-nothing", "cut off or damaged", _torch(b"h\x07.")),
    Hostile("memo-far-away", "holds no table", _torch(b"}r\xff\xff\xff\x7f.")),
    Hostile("deep-marks", "nested too deeply", _torch(b"(" * 100_000 + b".")),
    Hostile("deep-tuples", "holds no table", _torch(b")" + b"\x85" * 50_000 + b".")),
    Hostile("deep-key", "cut off or damaged", _torch(b"})" + b"\x85" * 50_000 + b"Ns.")),
    Hostile("steps-without-end", "more than 1000000 instructions", _torch(b"N0" * 600_000 + b".")),
    Hostile("list-of-itself", "holds no table", _torch(_ADD_LIST + b".")),
    Hostile("sizes-of-a-list", "cut off or damaged", _torch(name("torch", "Size") + b"(" + _ADD_LIST + b"tR.")),
    Hostile("text-beyond-the-end", "cut off or damaged", _torch(b"X\xff\xff\xff\x7fab")),
    Hostile("text-of-2-to-63", "cut off or damaged", _torch(b"\x8d" + b"\xff" * 7 + b"\x7f.")),
    Hostile("long-number", "cut off or damaged", _torch(b"\x8a\xff" + bytes(255) + b".")),
    Hostile("no-stop", "cut off or damaged", _torch(b"}")),
    Hostile("empty-stack", "cut off or damaged", _torch(b"R.")),
    Hostile("not-a-table", "holds no table of tensors", _torch(b"K\x01.")),
    Hostile("no-tensors", "holds no table of tensors", _torch(table(a=b"N") + b".")),
    Hostile("nested-twice", "'a' is neither a tensor nor a plain value",
            _torch(table(a=table(b=tensor()), w=tensor()) + b".")),
    # what tensors say of storages
    Hostile("storage-missing", "tensor 'w' is in storage '9', which is not in the file", _weights(key="9")),
    Hostile("storage-outside", "is in storage '../data.pkl', which is not", _weights(key="../data.pkl")),
    Hostile("storage-too-short", "which has 24 bytes and not 4000", _weights(count=1000)),
    Hostile("storage-negative", "is said to have -6 elements", _weights(count=-6)),
    Hostile("storage-of-2-to-62", "which has 24 bytes and not", _weights(count=1 << 62)),
    Hostile("storage-of-strings", "asks for 'torch.QUInt8Storage'", _weights(kind="QUInt8Storage")),
    Hostile("view-beyond", "reaches beyond the 6 elements", _weights(offset=1)),
    Hostile("view-far-beyond", "reaches beyond the 6 elements", _weights(offset=1 << 62)),
    Hostile("stride-beyond", "reaches beyond the 6 elements", _weights(strides=(1 << 62, 1))),
    Hostile("spread-thin", "tensor 'w' has 2 values, spread over 2,000,001 elements",
            _torch(table(w=tensor(count=1 << 21, shape=(2, 1), strides=(2_000_000, 1))) + b".", {"0": bytes(1 << 23)})),
    Hostile("stride-negative", "are no natural numbers", _weights(strides=(-3, 1))),
    Hostile("offset-negative", "are no natural numbers", _weights(offset=-1)),
    Hostile("size-negative", "are no natural numbers", _weights(shape=(-2, 3))),
    Hostile("expanded-to-2-to-62", "reaches beyond the 6 elements", _weights(shape=(1 << 31, 1 << 31), strides=(0, 0))),
    Hostile("nine-axes", "or too many", _weights(shape=(1,) * 9, strides=(1,) * 9)),
    Hostile("sizes-and-strides-differ", "are no natural numbers", _weights(strides=(1,))),
    # the archive
    Hostile("deflated", "entry 'm/byteorder' is compressed",
            _torch(table(w=tensor()) + b".", method=zipfile.ZIP_DEFLATED)),
    Hostile("bomb", "has 40000000 bytes, more than", _torch(b".", edit=_bomb)),
    Hostile("encrypted", "is encrypted",
            _torch(b"}.", edit=_replaced(b"PK\1\2\x14\x03\x14\0\0\0", b"PK\1\2\x14\x03\x14\0\1\0"))),
    Hostile("big-endian", "written on a big-endian machine", _torch(b"}.", order="big")),
    Hostile("checksum", "entry 'm/data.pkl' is damaged", _torch(text("abc") + b".", edit=_replaced(b"abc", b"abd"))),
    Hostile("archive-cut", "no table of contents at its end", _torch(b"}.", edit=lambda raw: raw[:-30])),
    Hostile("archive-of-nothing", "no table of contents at its end", _sparse_torch),
    Hostile("entries-65534", "is said to have 65534 entries in", _torch(b"}.", edit=_end(65534, 100, 0))),
    Hostile("table-beyond", "its table of contents has", _torch(b"}.", edit=_end(1, 1 << 31, 0))),
    Hostile("zip64-beyond", "is said to be at", _torch(b"}.", edit=_end64(1, 100, 0, place=1 << 62))),
    Hostile("zip64-missing", "not where it says", _torch(b"}.", edit=_end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF))),
    Hostile("zip64-billions", "its table of contents has", _torch(b"}.", edit=_end64(10**9, 46 * 10**9, 0))),
    Hostile("zip64-too-many", "entries in 100 bytes", _torch(b"}.", edit=_end64(1 << 60, 100, 0))),
    Hostile("local-header-lies", "no sound header of its own",
            _torch(b"}.", edit=lambda raw: b"PK\3\4" + b"\xff" * 26 + raw[30:])),
    Hostile("program", "is a program of TorchScript", _torch(b"}.", **{"constants.pkl": b""})),
    Hostile("plain-pickle", "PyTorch before 1.6", lambda folder: _plain(folder, b"\x80\x02cos\nsystem\n(tR.")),
    Hostile("no-pickle", "is no file of PyTorch", lambda folder: _plain(folder, b"hello")),
    Hostile("index-leaves", "a path that leaves",
            _index("pytorch_model.bin.index.json", {"w": "../x.bin"}, "pytorch_model.bin.index.json")),
    Hostile("index-of-safetensors", "which is not a .bin file",
            _index("m.bin.index.json", {"w": "x.safetensors"}, "m.bin.index.json")),
    # llama2.c
    Hostile("llama2c-cut", "but its header asks for", _llama2c(lambda raw: raw[:-1])),
    Hostile("llama2c-longer", "but its header asks for", _llama2c(lambda raw: raw + b"\0")),
    Hostile("llama2c-header-cut", "header cut off: 40 of 256", _llama2c(lambda raw: raw[:40])),
    Hostile("llama2c-version", "is version 3 of llama2.c", _llama2c(version=3)),
    Hostile("llama2c-layers", "not the numbers of a Llama", _llama2c(layers=2**31 - 1)),
    Hostile("llama2c-heads-0", "not the numbers of a Llama", _llama2c(heads=0)),
    Hostile("llama2c-negative", "not the numbers of a Llama", _llama2c(dim=-8)),
    Hostile("llama2c-huge", "but its header asks for", _llama2c(vocab=1 << 20, positions=1 << 20, hidden=1 << 20)),
    Hostile("llama2c-flag", "flag of a shared head is 2", _llama2c(flag=2)),
    Hostile("llama2c-group-0", "groups of 0 values", _llama2c(version=2, group=0)),
    Hostile("llama2c-group-7", "groups of 7 values", _llama2c(version=2, group=7)),
    Hostile("tokenizer-cut", "ends at token 4, but the model has 5", _words(_PIECES)),
    Hostile("tokenizer-longer", "goes on after the 5 tokens", _words(_PIECES + _entry(b"b") + b"\0")),
    Hostile("tokenizer-length", "token 4 has 4294967295 bytes", _words(_PIECES + _entry(b"b", length=2**32 - 1))),
    Hostile("tokenizer-score", "the score nan", _words(_PIECES + _entry(b"b", score=float("nan")))),
    Hostile("tokenizer-bytes", "token 4 is not UTF-8", _words(_PIECES + _entry(b"\xff"))),
    Hostile("tokenizer-twice", "tokens 3 and 4 are both 'a'", _words(_PIECES + _entry(b"a"))),
    Hostile("tokenizer-long-piece", "more than 512", _words(_PIECES + _entry(b"b" * 5000))),
    # safetensors, its index and its config
    Hostile("name-of-lines", r"x\n\n#error", _stranger("x\n\n#error")),
    Hostile("name-of-a-comment", "*/ int main", _stranger("x */ int main() {} /*")),
    Hostile("name-of-a-path", "../../etc/passwd", _stranger("../../etc/passwd")),
    Hostile("name-of-quotes", "\"'$(id)`", _stranger("\"'$(id)`")),
    Hostile("name-of-markup", "[red]x[/red]", _stranger("[red]x[/red]")),
    Hostile("name-of-a-megabyte", "nnnn…", _stranger("n" * 1_000_000)),
    Hostile("layer-of-many-digits", "is for layer 9999",
            _stranger(f"model.layers.{'9' * 5000}.input_layernorm.weight")),
    Hostile("sizes-overflow", "has 8 bytes, but its shape",
            _header({"w": _SIZE | {"shape": [2**62, 2**62]}}, bytes(8))),
    Hostile("header-of-2-gb", "more than 100000000", _sparse),
    Hostile("header-of-lists", "nested too deeply", _header("[" * 200_000)),
    Hostile("half-a-character", "half a character", _header('{"\\ud800": ' + json.dumps(_SIZE) + "}", bytes(8))),
    Hostile("index-leaves-folder", "a path that leaves", _index(INDEX, {"w": "../../x.safetensors"})),
    Hostile("index-of-numbers", "something that is not a file name", _index(INDEX, {"w": 1})),
    Hostile("layers-2-to-31", "num_hidden_layers", _config({"num_hidden_layers": 2**31 - 1})),
    Hostile("experts-2-to-31", "num_local_experts is 2147483647, expected 1 to",
            _config({"num_local_experts": 2**31 - 1})),
    Hostile("vocab-2-to-31", "expected 2147483647×16", _config({"vocab_size": 2**31 - 1})),
    Hostile("number-of-digits", "is too large", _config('{"vocab_size": ' + "9" * 5000 + "}")),
    Hostile("config-of-lists", "nested too deeply", _config('{"a":' + "[" * 200_000)),
    Hostile("config-of-infinity", "Infinity", _config('{"rms_norm_eps": Infinity}')),
    Hostile("model-type-of-lines", r"a\n*/b", _config({"model_type": "a\n*/b"})),
)  # fmt: skip


def _plain(folder: Path, raw: bytes) -> Path:
    (folder / "config.json").write_text("{}")
    (folder / "model.pt").write_bytes(raw)
    return folder / "model.pt"
