"""The `.bin` files of llama2.c: a header of seven numbers, then the matrices of a dense Llama without names.

Source: `export.py`, `run.c` and `tokenizer.py` of github.com/karpathy/llama2.c. Version 0 has no magic number; 1 is the
same in fp32 in another order; 2 holds the matrices in 8 bits with a scale for each group. Neither the epsilon of the
norms (1e-5) nor the base of the positions (10000) is in the file; the program has them as constants.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colibri.checkpoint.config import Config
from colibri.checkpoint.files import Bytes, Folder, read_whole
from colibri.checkpoint.forms.pieces import SPACE, tokenizer_of_pieces
from colibri.checkpoint.source import Opened, Plain, Stored, Tensors
from colibri.checkpoint.tokenizer import FILE_NAME as TOKENIZER_NAME
from colibri.errors import BadInput, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"24ka"  # "ak42" as a little-endian number
_NUMBERS = struct.Struct("<7i")
_HEADER_BYTES = 256  # of versions 1 and 2
_MOST_LAYERS = 1 << 12
_WIDEST = 1 << 20
_MAX_TOKENIZER = 64 << 20
_ENTRY = struct.Struct("<fI")


@dataclass(frozen=True)
class _Header:
    """The numbers of the model, and how the file is laid out."""

    version: int
    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    positions: int
    shared: bool
    group: int

    @property
    def kv_width(self) -> int:
        return self.dim // self.heads * self.kv_heads


@dataclass(frozen=True)
class Grouped:
    """A matrix in 8 bits, value by value, and behind it one fp32 scale for each `group` of them, across rows.

    Attributes:
        file: that holds them.
        shape: rows and columns.
        begin: first byte in the file.
        group: values that share a scale.
    """

    file: Bytes
    shape: tuple[int, ...]
    begin: int
    group: int
    dtype: str = "Q8_0"

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        count = math.prod(self.shape)
        return count + 4 * (count // self.group)

    @property
    def where(self) -> str:
        """Name of the file."""
        return self.file.where

    @property
    def in_order(self) -> bool:
        """Entries lie one behind the other."""
        return True

    def rows(self, begin: int, end: int) -> NDArray[np.generic]:
        """As `Stored.rows`."""
        import numpy as np

        columns = self.shape[1]
        first, last = begin * columns, end * columns
        values = np.frombuffer(self.file.read(self.begin + first, last - first), np.int8).astype(np.float32)
        group, behind = first // self.group, -(-last // self.group)
        at = self.begin + math.prod(self.shape) + 4 * group
        scales = np.frombuffer(self.file.read(at, 4 * max(0, behind - group)), "<f4")
        values *= np.repeat(scales, self.group)[first - group * self.group :][: values.size]
        return values.reshape(end - begin, columns)


def is_llama2c(file: Bytes) -> bool:
    """Return whether a file begins as llama2.c writes it; version 0 has to have the right length too."""
    head = bytes(file.read(0, min(file.size, _NUMBERS.size)))
    if head[:4] == _MAGIC:
        return True
    header = _legacy(head)
    return header is not None and file.size == _bytes(header)


def open_llama2c(folder: Folder, name: str) -> Opened:
    """Open a file that begins as one of llama2.c.

    Raises:
        BadInput: a version that is not read, numbers that are no model, or a file of another length than they say.
    """
    file = folder.file(name)
    header = _read_header(file)
    need = _bytes(header)
    if need != file.size:
        what = f"has {file.size} bytes, but its header asks for {need}"
        raise BadInput(what, where=file.where, hint="download or export the file again")
    stored: dict[str, Stored] = {}
    at = _HEADER_BYTES if header.version else _NUMBERS.size
    set_aside = {}
    for tensor, shape in _order(header):
        part: Stored
        if header.version == 2 and len(shape) > 1:
            part = Grouped(file, shape, at, header.group)
        else:
            part = Plain(file, "F32", shape, at)
        at += part.nbytes
        if tensor.startswith("freq_"):
            set_aside[tensor] = f"tables of positions, {part.nbytes} bytes: they follow from the base of 10000"
        else:
            stored[tensor] = _in_halves(part, tensor, header)
    config = Config(file.where, _config(header))
    tokenizer = None if folder.has(TOKENIZER_NAME) else _tokenizer(folder, header.vocab)
    return Opened(name.rpartition(".")[0] or name, folder, config, Tensors(stored), set_aside, lambda: tokenizer)


def _read_header(file: Bytes) -> _Header:
    head = bytes(file.read(0, min(file.size, _HEADER_BYTES)))
    if head[:4] != _MAGIC:
        header = _legacy(head)
        if header is None:
            raise BadInput("does not begin as a file of llama2.c", where=file.where)
        return header
    if len(head) < _HEADER_BYTES:
        raise BadInput(f"header cut off: {file.size} of {_HEADER_BYTES} bytes", where=file.where)
    (version,) = struct.unpack_from("<i", head, 4)
    if version not in (1, 2):
        raise BadInput(f"is version {version} of llama2.c's format; 0, 1 and 2 are read", where=file.where)
    numbers = _NUMBERS.unpack_from(head, 8)
    shared, group = struct.unpack_from("<Bi", head, 36)  # written one by one: no padding between them
    header = _numbered(version, numbers, shared=shared == 1, group=group if version == 2 else 0)
    if shared > 1:
        raise BadInput(f"header: the flag of a shared head is {shared}, expected 0 or 1", where=file.where)
    if not _sound(header):
        raise BadInput(f"header: {', '.join(map(str, numbers))} are not the numbers of a Llama", where=file.where)
    if version == 2 and (group < 1 or any(math.prod(s) % group for _, s in _order(header) if len(s) > 1)):
        raise BadInput(f"header: groups of {group} values do not divide the matrices", where=file.where)
    return header


def _numbered(version: int, numbers: Sequence[int], *, shared: bool, group: int) -> _Header:
    dim, hidden, layers, heads, kv_heads, vocab, positions = numbers
    return _Header(version, dim, hidden, layers, heads, kv_heads, vocab, positions, shared, group)


def _legacy(head: bytes) -> _Header | None:
    """Version 0: a negative vocabulary says that the head is stored."""
    if len(head) < _NUMBERS.size:
        return None
    *others, vocab, positions = _NUMBERS.unpack_from(head)
    header = _numbered(0, (*others, abs(vocab), positions), shared=vocab > 0, group=0)
    return header if _sound(header) else None


def _sound(h: _Header) -> bool:
    widths = (h.dim, h.hidden, h.vocab, h.positions, h.heads, h.kv_heads)
    return (
        all(1 <= width <= _WIDEST for width in widths)
        and 1 <= h.layers <= _MOST_LAYERS
        and h.dim % (2 * h.heads) == 0
        and h.heads % h.kv_heads == 0
    )


def _order(h: _Header) -> list[tuple[str, tuple[int, ...]]]:
    """Names, as transformers has them, and shapes in the order of the file."""

    def each(name: str, *shape: int) -> list[tuple[str, tuple[int, ...]]]:
        return [(f"model.layers.{layer}.{name}.weight", shape) for layer in range(h.layers)]

    embedding: list[tuple[str, tuple[int, ...]]] = [("model.embed_tokens.weight", (h.vocab, h.dim))]
    last: list[tuple[str, tuple[int, ...]]] = [("model.norm.weight", (h.dim,))]
    before, between = each("input_layernorm", h.dim), each("post_attention_layernorm", h.dim)
    attention = [
        *each("self_attn.q_proj", h.dim, h.dim),
        *each("self_attn.k_proj", h.kv_width, h.dim),
        *each("self_attn.v_proj", h.kv_width, h.dim),
        *each("self_attn.o_proj", h.dim, h.dim),
    ]
    mlp = [
        *each("mlp.gate_proj", h.hidden, h.dim),
        *each("mlp.down_proj", h.dim, h.hidden),
        *each("mlp.up_proj", h.hidden, h.dim),
    ]
    head: list[tuple[str, tuple[int, ...]]] = [] if h.shared else [("lm_head.weight", (h.vocab, h.dim))]
    if h.version:
        return [*before, *between, *last, *embedding, *attention, *mlp, *head]
    half = h.dim // h.heads // 2
    tables: list[tuple[str, tuple[int, ...]]] = [(f"freq_cis_{part}", (h.positions, half)) for part in ("real", "imag")]
    return [*embedding, *before, *attention, *between, *mlp, *last, *tables, *head]


def _bytes(h: _Header) -> int:
    """Length of the file; before any name is made of a number in it."""
    vectors = h.dim * (2 * h.layers + 1)
    each = 2 * h.dim * h.dim + 2 * h.kv_width * h.dim + 3 * h.hidden * h.dim
    matrices = h.layers * each + h.vocab * h.dim * (1 if h.shared else 2)
    if h.version == 0:
        return _NUMBERS.size + 4 * (vectors + matrices + h.positions * (h.dim // h.heads))
    return _HEADER_BYTES + 4 * vectors + (matrices + 4 * (matrices // h.group) if h.group else 4 * matrices)


def _in_halves(part: Stored, tensor: str, h: _Header) -> Stored:
    """Queries and keys: neighbours turn together here, halves of a head in transformers' form."""
    from colibri.checkpoint.forms.reordered import Reordered, pairs_to_halves

    heads = {"q_proj.weight": h.heads, "k_proj.weight": h.kv_heads}.get(tensor.partition("self_attn.")[2])
    return Reordered(part, pairs_to_halves(heads, h.dim // h.heads)) if heads else part


def _config(h: _Header) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": h.dim,
        "intermediate_size": h.hidden,
        "num_hidden_layers": h.layers,
        "num_attention_heads": h.heads,
        "num_key_value_heads": h.kv_heads,
        "vocab_size": h.vocab,
        "max_position_embeddings": h.positions,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": h.shared,
    }


def _tokenizer(folder: Folder, vocab: int) -> bytes | None:
    """``tokenizer.bin``, or ``tok512.bin`` for 512 tokens, where it lies beside the model."""
    name = next((name for name in ("tokenizer.bin", f"tok{vocab}.bin") if folder.has(name)), None)
    if name is None:
        return None
    file = folder.file(name)
    raw = read_whole(file, _MAX_TOKENIZER)
    pieces, scores, at = [], [], 4
    for number in range(vocab):
        if at + _ENTRY.size > len(raw):
            raise BadInput(f"ends at token {number}, but the model has {vocab}", where=file.where)
        score, length = _ENTRY.unpack_from(raw, at)
        at += _ENTRY.size + length
        if at > len(raw) or not math.isfinite(score):
            raise BadInput(f"token {number} has {length} bytes and the score {score:g}", where=file.where)
        try:
            pieces.append(_piece(number, raw[at - length : at].decode("utf-8")))
        except UnicodeDecodeError:
            what = f"token {number} is not UTF-8: {shown(str(raw[at - length : at]))}"
            raise BadInput(what, where=file.where) from None
        scores.append(score)
    if at != len(raw):
        raise BadInput(f"goes on after the {vocab} tokens of the model", where=file.where)
    return tokenizer_of_pieces(pieces, scores, file.where, unknown=0, begin=1) if vocab > 2 else None


def _piece(number: int, text: str) -> str:
    """Undo what the exporter does to the first tokens and to spaces."""
    if number in (1, 2):
        return text.strip("\n")
    byte = number - 3
    if 0 <= byte < 256 and text in (chr(byte), f"<0x{byte:02X}>"):
        return f"<0x{byte:02X}>"
    return text.replace(" ", SPACE)
