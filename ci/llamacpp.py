"""llama.cpp, where it is installed: a checkpoint to GGUF, quantised, and windows of tokens scored with it.

Its shared libraries, used by ctypes, lie in a folder: bins/linux-x64 of the npm package @node-llama-cpp/linux-x64, or
lib of the Python package llama_cpp. Its converter is in the source of llama-cpp-python, in vendor/llama.cpp.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

# Numbers of llama_ftype in llama.h.
TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12,
    "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30,
}  # fmt: skip


class _QuantiseParams(ctypes.Structure):
    """The beginning of llama_model_quantize_params; what is behind it differs between versions and stays as it is."""

    _fields_ = (("threads", ctypes.c_int32), ("ftype", ctypes.c_int32), ("others", ctypes.c_uint8 * 512))


class _ContextParams(ctypes.Structure):
    """The beginning of llama_context_params."""

    _fields_ = (
        ("n_ctx", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint32),
        ("n_ubatch", ctypes.c_uint32),
        ("others", ctypes.c_uint8 * 512),
    )


class _ModelParams(ctypes.Structure):
    """llama_model_params, all of which stays as it is."""

    _fields_ = (("others", ctypes.c_uint64 * 64),)


class _Batch(ctypes.Structure):
    """llama_batch."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


_Log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_quiet = _Log(lambda level, text, data: None)


# What the converter runs as, since it knows a tokenizer of the kind "byte-level BPE" by the hash of its answers only.
CONVERT = """
import runpy, sys
from pathlib import Path
sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def convert(python: Path, converter: Path, checkpoint: Path, out: Path) -> None:
    """Write a checkpoint as a GGUF file in fp32, by llama.cpp's convert_hf_to_gguf.py in a Python with torch."""
    command = [python, "-c", CONVERT, converter, checkpoint, "--outtype", "f32", "--outfile", out]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"llama.cpp's converter failed:\n{done.stderr[-2000:]}")


@dataclass(frozen=True)
class Scored:
    """What a model says of tokens that follow windows.

    Attributes:
        nats: loss of each, float64 ``[windows, length]``.
        logs: logarithm of each token's probability, float32 ``[windows, length, vocabulary]``.
    """

    nats: np.ndarray
    logs: np.ndarray

    @property
    def top(self) -> np.ndarray:
        """The most likely token, ``[windows, length]``."""
        return self.logs.argmax(axis=2)

    def divergence(self, other: Scored) -> float:
        """Kullback-Leibler divergence of another model's distribution from this one, nats a token."""
        gaps = (np.exp(mine.astype(np.float64)) * (mine - its) for mine, its in zip(self.logs, other.logs, strict=True))
        return float(np.mean([gap.sum(axis=1).mean() for gap in gaps]))


@dataclass
class LlamaCpp:
    """The libraries of a folder, loaded.

    Attributes:
        processor: of those that have a library of their own, such as ``haswell``; empty for the best that runs here.
    """

    folder: Path
    processor: str = ""
    library: ctypes.CDLL = field(init=False)

    def __post_init__(self) -> None:
        loaded = {}
        for stem in ("libggml-base", "libggml-cpu", "libggml", "libllama"):
            name = re.compile(rf"{stem}(\.v?[\d.]+)?\.so.*")
            files = [path for path in sorted(self.folder.iterdir()) if name.fullmatch(path.name)]
            if files:  # where processors have libraries of their own, ggml loads the one for this
                loaded[stem] = ctypes.CDLL(str(files[0].resolve()), mode=ctypes.RTLD_GLOBAL)
        if "libllama" not in loaded:
            sys.exit(f"{self.folder}: no libllama.so")
        if self.processor:
            own = self.folder.resolve() / f"libggml-cpu-{self.processor}.so"
            loaded["libggml"].ggml_backend_load.restype = ctypes.c_void_p
            if not loaded["libggml"].ggml_backend_load(os.fsencode(own)):
                sys.exit(f"{own}: llama.cpp cannot load it")
        elif hasattr(loaded["libggml"], "ggml_backend_load_all_from_path"):
            loaded["libggml"].ggml_backend_load_all_from_path(os.fsencode(self.folder.resolve()))
        self.library = loaded["libllama"]
        self.library.llama_log_set(_quiet, None)
        self.library.llama_backend_init()
        for name, answer in (
            ("llama_model_quantize_default_params", _QuantiseParams),
            ("llama_model_default_params", _ModelParams),
            ("llama_context_default_params", _ContextParams),
            ("llama_model_load_from_file", ctypes.c_void_p),
            ("llama_init_from_model", ctypes.c_void_p),
            ("llama_get_memory", ctypes.c_void_p),
            ("llama_model_get_vocab", ctypes.c_void_p),
            ("llama_get_logits", ctypes.POINTER(ctypes.c_float)),
        ):
            getattr(self.library, name).restype = answer

    def quantise(self, source: Path, out: Path, kind: str, threads: int = 0) -> None:
        """Write a file in one of `TYPES` with llama.cpp's default parameters; 0 threads are as many as processors."""
        params = self.library.llama_model_quantize_default_params()
        params.ftype = TYPES[kind]
        params.threads = threads
        if self.library.llama_model_quantize(os.fsencode(source), os.fsencode(out), ctypes.byref(params)):
            sys.exit(f"llama.cpp could not quantise {source.name} to {kind}")

    @property
    def version(self) -> str:
        """What the name of its library says."""
        name = next(path.name for path in sorted(self.folder.iterdir()) if path.name.startswith("libllama."))
        found = re.search(r"v?(\d+(?:\.\d+)+)", name)
        return found[1] if found else "of unknown version"

    def session(self, model: Path, context: int) -> Session:
        """A model, ready for so many positions."""
        return Session(self.library, model, context)

    def score(self, model: Path, tokens: np.ndarray, window: int, threads: int = 1) -> Scored:
        """Loss of every token behind the first, in windows that follow each other, each with an empty context.

        Args:
            tokens: ``[n]``; what does not fill a window and the token behind it is left out.
        """
        session = self.session(model, window)
        session.set_threads(threads)
        nats, logs = [], []
        for start in range(0, tokens.size - window, window):
            session.clear()
            logits = session.decode(tokens[start : start + window], every=True).astype(np.float64)
            target = tokens[start + 1 : start + window + 1].astype(np.int64)
            highest = logits.max(axis=1)
            logits -= (highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1)))[:, None]
            nats.append(-logits[np.arange(window), target])
            logs.append(logits.astype(np.float32))
        session.close()
        return Scored(np.array(nats), np.array(logs))


class Session:
    """A model with one context, all of whose positions are decoded in one batch if asked for."""

    def __init__(self, library: ctypes.CDLL, model: Path, context: int) -> None:
        self._library = library
        loaded = library.llama_model_load_from_file(os.fsencode(model), library.llama_model_default_params())
        if not loaded:
            sys.exit(f"llama.cpp could not load {model.name}")
        self._model = ctypes.c_void_p(loaded)
        self.vocabulary: int = library.llama_vocab_n_tokens(ctypes.c_void_p(library.llama_model_get_vocab(self._model)))
        params = library.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = context
        self._context = ctypes.c_void_p(library.llama_init_from_model(self._model, params))
        if not self._context:
            sys.exit(f"llama.cpp could not make a context for {model.name}")

    def set_threads(self, threads: int) -> None:
        """For decoding as for batches."""
        self._library.llama_set_n_threads(self._context, threads, threads)

    def clear(self) -> None:
        """Forget all positions."""
        self._library.llama_memory_clear(ctypes.c_void_p(self._library.llama_get_memory(self._context)), True)

    def decode(self, tokens: np.ndarray, first: int = 0, *, every: bool = False) -> np.ndarray:
        """Logits of tokens at positions from ``first``: ``[n, vocabulary]`` of every one, else ``[1, vocabulary]``."""
        n = tokens.size
        numbers, flags = ctypes.c_int32 * n, ctypes.c_int8 * n
        sequence = (ctypes.c_int32 * 1)(0)
        one = ctypes.cast(sequence, ctypes.POINTER(ctypes.c_int32))
        asked = [1] * n if every else [0] * (n - 1) + [1]
        batch = _Batch(
            n, numbers(*tokens.tolist()), None, numbers(*range(first, first + n)), numbers(*[1] * n),
            (ctypes.POINTER(ctypes.c_int32) * n)(*[one] * n), flags(*asked),
        )  # fmt: skip
        if self._library.llama_decode(self._context, batch):
            sys.exit("llama.cpp could not decode a window")
        return np.ctypeslib.as_array(
            self._library.llama_get_logits(self._context), (sum(asked), self.vocabulary)
        ).copy()

    def close(self) -> None:
        """Free context and model."""
        self._library.llama_free(self._context)
        self._library.llama_model_free(self._model)
