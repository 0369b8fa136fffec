"""Blocks of ggml's number formats, read to fp32.

A row is a run of blocks; a block holds scales and packed integers. Source: `ggml-common.h` and `ggml-quants.c` of
llama.cpp (layouts); each product and difference is one fp32 operation, in the order of `gguf.quants` of the `gguf`
package, whose values these are bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Raw = NDArray[Any]  # structured, one element a block
_F16 = "<f2"
_NON_LINEAR = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
_E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


@dataclass(frozen=True)
class BlockFormat:
    """How a tensor is stored.

    Attributes:
        name: as ggml writes it.
        values: of a block.
        layout: of a block; None for a format that is known and not read.
        decode: blocks ``[n]`` to fp32 ``[n, values]``.
        bits: of a packed value; 0 where values are not packed into blocks.
    """

    name: str
    values: int
    layout: np.dtype[Any] | None
    decode: Callable[[Raw], NDArray[np.float32]] | None
    bits: int = 0

    @property
    def bytes(self) -> int:
        """Size of a block."""
        assert self.layout is not None
        return self.layout.itemsize


def read_blocks(raw: bytes | bytearray, form: BlockFormat) -> NDArray[np.float32]:
    """Return the values of whole blocks, one after the other ``[blocks * form.values]``."""
    assert form.layout is not None and form.decode is not None
    if not raw:
        return np.empty(0, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is the caller's to refuse
        return form.decode(np.frombuffer(raw, form.layout)).reshape(-1)


def _parts(packed: NDArray[np.uint8], bits: int, run: int) -> NDArray[np.uint8]:
    """Split bytes: each run of ``run`` bytes gives its lowest ``bits`` first, then the next, and so on."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    runs = packed.reshape(len(packed), -1, 1, run)
    return ((runs >> shifts) & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def _scaled(scales: NDArray[np.float32], values: NDArray[Any]) -> NDArray[np.float32]:
    """Each group of values times its scale; the groups are equally long."""
    groups = values.astype(np.float32).reshape(*scales.shape, -1)
    return (groups * scales[..., None]).reshape(len(values), -1)


def _float(blocks: Raw, field: str = "d") -> NDArray[np.float32]:
    return blocks[field].astype(np.float32)[:, None]


def _signed(values: NDArray[np.uint8], offset: int) -> NDArray[np.int16]:
    return values.astype(np.int16) - np.int16(offset)


def _as_stored(blocks: Raw) -> NDArray[np.float32]:
    return blocks["x"].astype(np.float32)


def _bf16(blocks: Raw) -> NDArray[np.float32]:
    return (blocks["x"].astype(np.uint32) << np.uint32(16)).view(np.float32)


def _q4_0(blocks: Raw) -> NDArray[np.float32]:
    return _scaled(_float(blocks), _signed(_parts(blocks["q"], 4, 16), 8))


def _q4_1(blocks: Raw) -> NDArray[np.float32]:
    return _scaled(_float(blocks), _parts(blocks["q"], 4, 16)) + _float(blocks, "m")


def _fifth_bits(blocks: Raw) -> NDArray[np.uint8]:
    high = np.unpackbits(np.ascontiguousarray(blocks["h"]), axis=-1, bitorder="little")
    return _parts(blocks["q"], 4, 16) | (high << np.uint8(4))


def _q5_0(blocks: Raw) -> NDArray[np.float32]:
    return _scaled(_float(blocks), _signed(_fifth_bits(blocks), 16))


def _q5_1(blocks: Raw) -> NDArray[np.float32]:
    return _scaled(_float(blocks), _fifth_bits(blocks)) + _float(blocks, "m")


def _q8_0(blocks: Raw) -> NDArray[np.float32]:
    return _scaled(_float(blocks), blocks["q"])


def _q2_k(blocks: Raw) -> NDArray[np.float32]:
    scales = _float(blocks) * (blocks["s"] & np.uint8(15)).astype(np.float32)
    minima = _float(blocks, "m") * (blocks["s"] >> np.uint8(4)).astype(np.float32)
    return _scaled(scales, _parts(blocks["q"], 2, 32)) - np.repeat(minima, 16, axis=-1)


def _q3_k(blocks: Raw) -> NDArray[np.float32]:
    low, high = _parts(blocks["s"][:, :8], 4, 8), _parts(blocks["s"][:, 8:], 2, 4)
    scales = _float(blocks) * _signed(low | (high << np.uint8(4)), 32).astype(np.float32)
    below = np.uint8(1) - _parts(blocks["h"], 1, 32)  # a bit that is not set takes 4 away
    return _scaled(scales, _signed(_parts(blocks["q"], 2, 32), 0) - _signed(below << np.uint8(2), 0))


def _scales_and_minima(blocks: Raw) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Eight 6-bit scales and minima in 12 bytes: four of each, with upper bits of the others, and the rest of those."""
    first, second, both = (blocks["s"][:, at : at + 4] for at in (0, 4, 8))
    low, high = np.uint8(63), np.uint8(48)
    scales = np.concatenate([first & low, (both & np.uint8(15)) | (first >> np.uint8(2) & high)], axis=-1)
    minima = np.concatenate([second & low, (both >> np.uint8(4)) | (second >> np.uint8(2) & high)], axis=-1)
    return _float(blocks) * scales.astype(np.float32), _float(blocks, "m") * minima.astype(np.float32)


def _q4_k(blocks: Raw) -> NDArray[np.float32]:
    scales, minima = _scales_and_minima(blocks)
    return _scaled(scales, _parts(blocks["q"], 4, 32)) - np.repeat(minima, 32, axis=-1)


def _q5_k(blocks: Raw) -> NDArray[np.float32]:
    scales, minima = _scales_and_minima(blocks)
    values = _parts(blocks["q"], 4, 32) | (_parts(blocks["h"], 1, 32) << np.uint8(4))
    return _scaled(scales, values) - np.repeat(minima, 32, axis=-1)


def _q6_k(blocks: Raw) -> NDArray[np.float32]:
    scales = _float(blocks) * blocks["s"].astype(np.float32)
    values = _parts(blocks["q"], 4, 64) | (_parts(blocks["h"], 2, 32) << np.uint8(4))
    return _scaled(scales, _signed(values, 32))


def _iq4_nl(blocks: Raw) -> NDArray[np.float32]:
    return _scaled(_float(blocks), _NON_LINEAR[_parts(blocks["q"], 4, 16)])


def _iq4_xs(blocks: Raw) -> NDArray[np.float32]:
    low = _parts(blocks["l"], 4, 1)
    high = (blocks["h"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16)).astype(np.uint8) & np.uint8(3)
    scales = _float(blocks) * _signed(low | (high << np.uint8(4)), 32).astype(np.float32)
    return _scaled(scales, _NON_LINEAR[_parts(blocks["q"], 4, 16)])


def _mxfp4(blocks: Raw) -> NDArray[np.float32]:
    half = np.ldexp(np.float32(1), blocks["e"].astype(np.int32) - 128).astype(np.float32)[:, None]
    return _scaled(half, _E2M1_DOUBLED[_parts(blocks["q"], 4, 16)])


def _layout(**fields: Any) -> np.dtype[Any]:
    return np.dtype(list(fields.items()))


def _bytes(count: int) -> tuple[str, tuple[int, ...]]:
    return "u1", (count,)


_READ = {
    0: BlockFormat("F32", 1, _layout(x="<f4"), _as_stored),
    1: BlockFormat("F16", 1, _layout(x=_F16), _as_stored),
    2: BlockFormat("Q4_0", 32, _layout(d=_F16, q=_bytes(16)), _q4_0, 4),
    3: BlockFormat("Q4_1", 32, _layout(d=_F16, m=_F16, q=_bytes(16)), _q4_1, 4),
    6: BlockFormat("Q5_0", 32, _layout(d=_F16, h=_bytes(4), q=_bytes(16)), _q5_0, 5),
    7: BlockFormat("Q5_1", 32, _layout(d=_F16, m=_F16, h=_bytes(4), q=_bytes(16)), _q5_1, 5),
    8: BlockFormat("Q8_0", 32, _layout(d=_F16, q=("i1", (32,))), _q8_0, 8),
    10: BlockFormat("Q2_K", 256, _layout(s=_bytes(16), q=_bytes(64), d=_F16, m=_F16), _q2_k, 2),
    11: BlockFormat("Q3_K", 256, _layout(h=_bytes(32), q=_bytes(64), s=_bytes(12), d=_F16), _q3_k, 3),
    12: BlockFormat("Q4_K", 256, _layout(d=_F16, m=_F16, s=_bytes(12), q=_bytes(128)), _q4_k, 4),
    13: BlockFormat("Q5_K", 256, _layout(d=_F16, m=_F16, s=_bytes(12), h=_bytes(32), q=_bytes(128)), _q5_k, 5),
    14: BlockFormat("Q6_K", 256, _layout(q=_bytes(128), h=_bytes(64), s=("i1", (16,)), d=_F16), _q6_k, 6),
    20: BlockFormat("IQ4_NL", 32, _layout(d=_F16, q=_bytes(16)), _iq4_nl, 4),
    23: BlockFormat("IQ4_XS", 256, _layout(d=_F16, h="<u2", l=_bytes(4), q=_bytes(128)), _iq4_xs, 4),
    28: BlockFormat("F64", 1, _layout(x="<f8"), _as_stored),
    30: BlockFormat("BF16", 1, _layout(x="<u2"), _bf16),
    39: BlockFormat("MXFP4", 32, _layout(e="u1", q=_bytes(16)), _mxfp4, 4),
}
_NOT_READ = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 40: "NVFP4",
}  # fmt: skip
FORMATS = _READ | {number: BlockFormat(name, 1, None, None) for number, name in _NOT_READ.items()}
READ_NAMES = tuple(form.name for form in _READ.values())
