"""CSV files of samples: what a cell may hold, and which column is which input."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from colibri.checkpoint import untrusted
from colibri.errors import BadInput
from colibri.samples import read_samples

NAMES = ("flow", "temp, in °C", "y[t-0]")


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "samples.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(path: Path, labels: tuple[str, ...] = ()) -> str:
    with pytest.raises(BadInput) as caught:
        read_samples(path, 3, labels)
    text = str(caught.value)
    assert text.isprintable() and len(text) < 700
    return text.replace(f"{path.parent}/", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "samples.csv: holds no samples; one line a sample, 3 numbers each"),
        ("a,b,c\n", "holds no samples"),
        ("1,2\n", "line 1: 2 columns, the model has 3 inputs"),
        ("a,b\n1,2,3\n", "line 1: 2 columns, the model has 3 inputs"),
        ("1,2,3\n1,2,3,4\n", "line 2: 4 columns"),
        ("1,2,3,\n", "line 1: 4 columns"),
        ("1;2;3\n", "line 1: 1 columns"),
        ("1,2,3\nx,2,3\n", "line 2: column 1: 'x' is not a finite number"),
        ("x,2,3\n", "line 1: column 1: 'x' is not a finite number"),
        ("a,b,c\na,b,c\n1,2,3\n", "line 2: column 1: 'a' is not a finite number"),
        ("1,nan,3\n", "line 1: column 2: 'nan' is not a finite number"),
        ("nan,nan,nan\n", "line 1: column 1: 'nan' is not a finite number"),
        ("1,2,1e39\n", "line 1: column 3: '1e39' is not a finite number"),
        ("1,2,inf\n", "line 1: column 3: 'inf' is not a finite number"),
        ("1,2,1e999999999\n", "column 3: '1e999999999' is not a finite number"),
        ("1,1_000,3\n", "'1_000' is not a finite number; write it without marks between the digits"),
        ('1,"1,000",3\n', "'1,000' is not a finite number; write it without marks between the digits"),
        ("1,1 000,3\n", "'1 000' is not a finite number; write it without marks"),
        ("1,0x10,3\n", "'0x10' is not a finite number"),
        ("1,\u0661,3\n", "'\u0661' is not a finite number"),
        ("1,,3\n", "line 1: column 2 is empty; every input needs a number"),
        ("1, ,3\n", "line 1: column 2 is empty"),
        (",,\n", "line 1: column 1 is empty"),
        ('"1,2,3\n', "is not CSV: unexpected end of data"),
        ('1,"2"x,3\n', "is not CSV: ',' expected after '\"'"),
        ("1,2,3\n" + "x" * 200_000 + ",2,3\n", "line 2: is not CSV: field larger than field limit"),
        ("1,2," + "x" * 100_000, "line 1: column 3: 'xxxx"),
        ("1,\0,3\n", "samples.csv"),
        (b"\xff\xfe1,2,3", "cannot be read: not UTF-8 at byte 1"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str | bytes, words: str) -> None:
    assert words in refused(write(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "1,2,3\n4,5,6\n",
        "a,b,c\n1,2,3\n\n4,5,6",
        "\ufeff1,2,3\r\n4,5,6\r\n",
        '"1"," 2",3\n4,5,6',
        "+1,2.,.3e1\n4.0,5E0,6",
        '\ufeffa,"b\nc",d\r\n1,2,3\r\n4,5,6',
    ],
)
def test_files_that_are_fine(tmp_path: Path, text: str) -> None:
    samples = read_samples(write(tmp_path, text), 3)
    assert samples.dtype == np.float32 and samples.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_cells_are_rounded_once(tmp_path: Path) -> None:
    text = "0.1,16777217.0000001,3.4028234663852886e38"
    assert read_samples(write(tmp_path, text), 3).tobytes() == np.array(eval(text), np.float32).tobytes()


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        ('flow,"temp, in °C",y[t-0]', "1,2,3"),
        (' flow , "temp, in °C",y[t-0] ', "1,2,3"),
        ('y[t-0],flow,"temp, in °C"', "3,1,2"),
        ('"temp, in °C",y[t-0],flow', "2,3,1"),
    ],
)
def test_columns_go_to_the_inputs_of_their_names(tmp_path: Path, heading: str, row: str) -> None:
    text = f"{heading.replace(', ', ',', 1) if heading.startswith(' ') else heading}\n{row}\n"
    assert read_samples(write(tmp_path, text), 3, NAMES).tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("flow,temperature,y[t-0]", "line 1: column 2, 'temperature', is no input of the model; known: "),
        ("flow,flwo,y[t-0]", "column 2, 'flwo', is no input of the model; did you mean 'flow'?"),
        ("a,b,c", "column 1, 'a', is no input of the model"),
        ("flow,flow,y[t-0]", "line 1: 'flow' is there twice"),
        ("flow,,y[t-0]", "line 1: column 1: 'flow' is not a finite number"),
        ("\x1b[31m,b,c", "column 1, '\\x1b[31m', is no input"),
    ],
)
def test_names_that_the_model_has_not(tmp_path: Path, heading: str, words: str) -> None:
    assert words in refused(write(tmp_path, f"{heading}\n1,2,3\n"), NAMES)


def test_numbers_need_no_names(tmp_path: Path) -> None:
    assert read_samples(write(tmp_path, "1,2,3"), 3, NAMES).tolist() == [[1, 2, 3]]


def test_names_that_are_numbers(tmp_path: Path) -> None:
    assert read_samples(write(tmp_path, "10,20,30\n1,2,3"), 3, ("10", "20", "30")).tolist() == [[1, 2, 3]]


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("1,2,3\n" * 20_000))
    writer.start()
    assert read_samples(tmp_path / "pipe", 3).shape == (20_000, 3)
    writer.join()


def test_a_pipe_into_which_nobody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "_PATIENCE", 0.2)
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "pipe: nobody wrote into this pipe for 0.2 s; give a file"


def test_files_without_an_end_or_beyond_the_limit(tmp_path: Path) -> None:
    assert refused(Path("/dev/zero")) == "zero: is not a file or a pipe"
    assert refused(tmp_path).endswith(f"{tmp_path.name}: is not a file or a pipe")
    assert "no such file" in refused(tmp_path / "none")
    assert "File name too long" in refused(tmp_path / ("n" * 300))
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert "more than the 67108864 that such a file may have" in refused(tmp_path / "huge")
