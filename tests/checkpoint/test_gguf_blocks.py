"""Every number format of GGUF against the `gguf` package, bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from colibri.checkpoint.forms.gguf_blocks import FORMATS, BlockFormat, read_blocks

READ = {number: form for number, form in FORMATS.items() if form.layout is not None}


@pytest.mark.parametrize("number", FORMATS)
def test_formats_are_called_as_ggml_calls_them(number: int) -> None:
    assert gguf.GGMLQuantizationType(number).name == FORMATS[number].name


@pytest.mark.parametrize(("number", "form"), READ.items(), ids=[form.name for form in READ.values()])
def test_values_of_any_bits(number: int, form: BlockFormat) -> None:
    kind = gguf.GGMLQuantizationType(number)
    assert gguf.GGML_QUANT_SIZES[kind] == (form.values, form.bytes)
    raw = np.random.default_rng(number).integers(0, 256, (16, 40 * form.bytes), dtype=np.uint8)
    found = read_blocks(raw.tobytes(), form)
    with np.errstate(all="ignore"):
        wanted = raw.view(np.float64) if form.name == "F64" else gguf.quants.dequantize(raw, kind)
        wanted = wanted.astype(np.float32).reshape(-1)
    assert found.dtype == np.float32 and found.size == 16 * 40 * form.values
    number_of = np.isnan(found)
    assert np.array_equal(number_of, np.isnan(wanted))
    assert np.array_equal(found.view(np.uint32)[~number_of], wanted.view(np.uint32)[~number_of])


def test_every_exponent_of_mxfp4() -> None:
    raw = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 17, axis=1)
    raw[:, 1:] = np.arange(16) * 17
    found = read_blocks(raw.tobytes(), READ[39]).reshape(256, 32)
    with np.errstate(over="ignore"):
        wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.MXFP4)
    assert np.array_equal(found, wanted)
    assert found[0, 1] == 2.0**-128 and found[127, 2] == 1.0
