"""Words to token ids and back, on the host, by the checkpoint's own tokenizer.json."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from colibri.checkpoint.untrusted import is_there, read_bounded
from colibri.errors import BadInput, ToolMissing, shown

if TYPE_CHECKING:
    import tokenizers

FILE_NAME = "tokenizer.json"
_MAX_BYTES = 256 << 20
_MAX_ID = 2**32 - 1
_UNFINISHED = "\ufffd"
_LONGEST_WAIT = 3  # a UTF-8 character has at most 4 bytes, so at most 3 stand alone
_TRIM_AT = 64
_CONTEXT = 8


class Tokenizer:
    """The text side of a token model."""

    def __init__(self, engine: tokenizers.Tokenizer, where: str) -> None:
        """Wrap a tokenizer of the `tokenizers` package; `load_tokenizer` is the usual way in."""
        self._engine = engine
        self._where = where

    @property
    def size(self) -> int:
        """Number of tokens, added ones included; the model's vocabulary may be padded beyond it."""
        return self._engine.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the token ids of `text`.

        Args:
            text: any text.
            special: add the tokens that the tokenizer puts around a text (such as its start), as it was trained.

        Raises:
            BadInput: text that is not Unicode (lone surrogates).
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise BadInput(f"the text is not UTF-8 at character {error.start + 1}", where=shown(text)) from None
        with _faults_of(self._where):
            return list(self._engine.encode(text, add_special_tokens=special).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens left out; ids beyond `size` have no text.

        Raises:
            BadInput: an id that is negative or more than 32 bits.
        """
        for token in ids:
            if not 0 <= token <= _MAX_ID:
                raise BadInput(f"{token} is not a token id", where=self._where)
        with _faults_of(self._where):
            return self._engine.decode(list(ids), skip_special_tokens=True)

    def stream(self) -> StreamDecoder:
        """Return a decoder that takes one token at a time."""
        return StreamDecoder(self)


class StreamDecoder:
    """Text as it comes: what `push` and `finish` return, joined, is the decoded sequence.

    A token may end within a character; its bytes wait for the rest. (A tokenizer that falls back to single bytes
    rewrites earlier ones when a run of them is not UTF-8; text that was returned already stays then.)
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._sent = ""  # the part of the window's text that was returned
        self._stalled = 0

    def push(self, token: int) -> str:
        """Return the text that `token` completes; empty while a character is unfinished.

        Raises:
            BadInput: not a token id.
        """
        text = self._tokenizer.decode([*self._window, token])
        self._window.append(token)
        if not text.startswith(self._sent):
            return self._resync()
        self._stalled = 0
        fresh = text[len(self._sent) :]
        waiting = min(_LONGEST_WAIT, len(fresh) - len(fresh.rstrip(_UNFINISHED)))
        ready = fresh[: len(fresh) - waiting]
        self._sent += ready
        if waiting == 0 and len(self._window) >= _TRIM_AT:
            self._trim(text)
        return ready

    def finish(self) -> str:
        """Return what still waits, with U+FFFD for bytes that never became a character; then start anew."""
        text = self._tokenizer.decode(self._window)
        rest = text[len(self._sent) :] if text.startswith(self._sent) else _UNFINISHED
        self._window, self._sent, self._stalled = [], "", 0
        return rest

    def _resync(self) -> str:
        """Earlier text was rewritten: wait for a character's length, then go on from the tokens that waited."""
        self._stalled += 1
        if self._stalled <= _LONGEST_WAIT:
            return ""
        self._window = self._window[-self._stalled :]
        self._sent = self._tokenizer.decode(self._window)
        self._stalled = 0
        return self._sent

    def _trim(self, text: str) -> None:
        """Keep only some context, so that a long text does not cost its square; decoders look at the tokens before."""
        for count in range(_CONTEXT, len(self._window)):
            context = self._tokenizer.decode(self._window[-count:])
            if context and _UNFINISHED not in context and text.endswith(context):
                self._window, self._sent = self._window[-count:], context
                return


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read ``tokenizer.json`` of a checkpoint folder.

    Raises:
        ToolMissing: the `tokenizers` package is not installed.
        BadInput: no such file, or not a tokenizer.
    """
    file = folder / FILE_NAME
    where = shown(str(file))
    if not is_there(file):
        raise BadInput(f"no {FILE_NAME}", where=shown(str(folder)), hint="give token ids instead of text")
    raw = read_bounded(file, _MAX_BYTES)
    try:
        import tokenizers
    except ImportError:
        raise ToolMissing(
            "words need the package `tokenizers`", where=where, hint="pip install 'colibri-firmware[text]'"
        ) from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput("is not UTF-8", where=where) from None
    with _faults_of(where):
        return Tokenizer(tokenizers.Tokenizer.from_str(text), where)


@contextmanager
def _faults_of(where: str) -> Generator[None, None, None]:
    """Turn a failure inside the `tokenizers` package into a fault of the file that it was given.

    The package raises plain Exception for every fault, and its Rust code may panic, as a BaseException of its own.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise BadInput(f"is not a usable tokenizer: {shown(str(error))}", where=where) from None
