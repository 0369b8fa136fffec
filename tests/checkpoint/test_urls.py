"""Checkpoints behind URLs: the same values, by ranges where that can be, and one line for what goes wrong."""

from __future__ import annotations

import socket
import sys
import zipfile
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import fsspec
import numpy as np
import pytest
from make_bad import tiny_mixtral, write_checkpoint, write_shards
from make_hostile import write_torch

from colibri.checkpoint import remote
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.remote import url_of
from colibri.cli import main
from colibri.cli.options import default_output
from colibri.errors import BadInput, ToolMissing


def check_values(url: str) -> Checkpoint:
    checkpoint = Checkpoint.open(url)
    for name, values in tiny_mixtral().items():
        assert checkpoint.take(name, values.shape).tobytes() == values.tobytes()
    assert checkpoint.finish() == []
    return checkpoint


@pytest.fixture
def memory(tmp_path: Path) -> Generator[str, None, None]:
    """Some folders in fsspec's memory."""
    write_checkpoint(tmp_path / "single")
    write_shards(tmp_path / "shards")
    write_checkpoint(tmp_path / "torch")
    (tmp_path / "torch/model.safetensors").unlink()
    write_torch(tmp_path / "torch/pytorch_model.bin", tiny_mixtral())
    (tmp_path / "single/LICENSE").write_text("Some licence\n")
    system = fsspec.filesystem("memory")
    system.put(f"{tmp_path}/", "/models/", recursive=True)
    yield "memory://models"
    system.rm("/models", recursive=True)


@pytest.mark.parametrize("what", ["single", "single/", "shards", "single/model.safetensors", "torch/pytorch_model.bin"])
def test_memory(what: str, memory: str) -> None:
    checkpoint = check_values(f"{memory}/{what}")
    assert checkpoint.name == what.partition("/")[0]
    assert checkpoint.where == f"memory:///models/{checkpoint.name}"
    assert checkpoint.licence() == ("Some licence" if checkpoint.name == "single" else None)


def test_file_and_zip(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "m.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in (tmp_path / "model").iterdir():
            archive.write(file, f"inside/{file.name}")
            archive.write(file, file.name)
    for url in (
        f"file://{tmp_path}/model",
        f"zip://inside::file://{tmp_path}/m.zip",
        f"zip://::file://{tmp_path}/m.zip",
    ):
        check_values(url)


class Ranges(SimpleHTTPRequestHandler):
    """A server that gives parts of files, and remembers what it was asked for."""

    asked: list[str]
    root: Path
    ranges = True

    def log_message(self, *_: object) -> None: ...

    def end_headers(self) -> None:
        if self.ranges:
            self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        type(self).asked.append(f"{self.path} {wanted}".strip())
        file = Path(self.translate_path(self.path))
        if not (self.ranges and wanted and file.is_file()):
            return super().do_GET()
        begin, end = map(int, wanted.removeprefix("bytes=").split("-"))
        part = file.read_bytes()[begin : end + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{end}/{file.stat().st_size}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)
        return None


@pytest.fixture(params=[True, False], ids=["ranges", "whole files"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[str, type[Ranges]], None, None]:
    write_checkpoint(tmp_path / "single")
    write_shards(tmp_path / "shards")
    handler = type("Handler", (Ranges,), {"asked": [], "ranges": request.param, "root": tmp_path})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path))) as made:
        Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}", handler
        made.shutdown()


def test_http(server: tuple[str, type[Ranges]]) -> None:
    url, handler = server
    check_values(f"{url}/single")
    check_values(f"{url}/shards")
    size = (handler.root / "single/model.safetensors").stat().st_size
    weights = [line for line in handler.asked if line.startswith("/single/model.safetensors")]
    if handler.ranges:
        assert len(weights) > len(tiny_mixtral()) and all("bytes=" in line for line in weights)
    else:
        assert len(weights) == 2 and weights[0].endswith(f"bytes={size - 1}-{size - 1}")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memory://absent/model", "memory:///absent/model: no such file"),
        ("memory://absent/model.safetensors", "memory:///absent"),
        ("zip://m::file:///dev/zero", "file:///dev/zero: is not a file"),
        ("nonsense://a/b", "nonsense://a/b: cannot be read: ValueError: Protocol not known"),
        ("http://127.0.0.1:1/model", "http://127.0.0.1:1/model: "),
        ("http://me:secret@127.0.0.1:1/model.gguf", "http://127.0.0.1:1/model.gguf: "),
        ("https://host/m.gguf?signature=secret", "https://host/m.gguf: has a query"),
    ],
)
def test_what_cannot_be_read(url: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", url, "--board", "x86-64-v3"]) == 5
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line and "secret" not in line


def test_no_name_of_an_index_reaches_elsewhere(memory: str) -> None:
    from colibri.checkpoint.remote import RemoteFolder

    folder = RemoteFolder(f"{memory}/shards", ())
    for name in ("%2e%2e/single/model.safetensors", "a?b", "*"):
        assert not folder.has(name)
        with pytest.raises(BadInput, match="no plain name"):
            folder.file(name)


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert main(["generate", "s3://bucket/model", "--board", "x86-64-v3"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "colibri: s3://bucket/model: URLs need the package `fsspec`; pip install 'colibri-firmware[remote]'"


def test_a_missing_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ToolMissing, match=r"s3://bucket/model: this URL needs another package: .*s3fs"):
        Checkpoint.open("s3://bucket/model")


def test_paths_are_no_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [url_of(Path(text)) for text in ("a/b", "/a:/b", "C:/model", "model:1", "s3:")] == [None] * 5
    assert url_of(Path("hf://owner/name")) == "hf://owner/name"
    assert url_of(Path("zip://in/m::s3://bucket/a.zip")) == "zip://in/m::s3://bucket/a.zip"
    assert url_of(Path("memory://a")) == "memory:///a" and url_of(Path("file:///a/b")) == "file:///a/b"
    (tmp_path / "s3:" / "m").mkdir(parents=True)
    assert url_of(Path("s3:/m")) is None


def test_a_part_that_is_cut_off(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint.open(f"{memory}/single")
    system = fsspec.filesystem("memory")
    system.pipe("/models/single/model.safetensors", b"short")
    with pytest.raises(BadInput, match=r"model\.safetensors: gave 0 of \d+ bytes"):
        checkpoint.take("lm_head.weight", np.shape(tiny_mixtral()["lm_head.weight"]))


def test_no_secret_in_names() -> None:
    for url in ("https://me:secret@host", "zip://::https://me:secret@host?key=secret"):
        assert default_output(Path(url), "microbit") == Path("build/host-microbit")


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_SILENCE", 0.1)
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, pytest.raises(BadInput, match=r"m\.gguf: cannot be read: .*[Tt]imeout"):
        Checkpoint.open(f"http://127.0.0.1:{silent.getsockname()[1]}/m.gguf")
