"""Peers of ci/bench, each in a process of its own and in the Python that has it: loaded once, it answers requests.

    bench_worker.py llama DIR FILE.gguf CONTEXT PROCESSOR
    bench_worker.py torch CHECKPOINT
    bench_worker.py ort ROWS COLUMNS

The first line that it writes is its name and version. Then it reads lines "CALL COUNT THREADS", answers with seconds:
prefill (COUNT tokens from an empty context), decode (the same one by one), product (COUNT rows
of activations). Each call runs before it is timed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

Call = Callable[[int, int], float]  # count and threads to seconds
LEAST = 0.5  # seconds


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call after a first one: the median of as many as half a second holds."""
    call()
    taken: list[float] = []
    while sum(taken) < LEAST:
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def tokens_below(vocabulary: int, count: int) -> np.ndarray:
    """Pseudo-random tokens, the same for each peer; llama.cpp's own benchmark takes random ones, too."""
    return np.random.Generator(np.random.PCG64(1)).integers(0, vocabulary, count)


def llama(folder: str, model: str, context: str, processor: str) -> tuple[str, Mapping[str, Call]]:
    from llamacpp import LlamaCpp

    library = LlamaCpp(Path(folder), processor)
    loaded = library.session(Path(model), int(context))

    def prefill(count: int, threads: int) -> float:
        tokens = tokens_below(loaded.vocabulary, count)
        loaded.set_threads(threads)

        def whole() -> None:
            loaded.clear()
            loaded.decode(tokens)

        return timed(whole)

    def decode(count: int, threads: int) -> float:
        tokens = tokens_below(loaded.vocabulary, count)
        loaded.set_threads(threads)

        def each() -> None:
            loaded.clear()
            for position in range(count):
                loaded.decode(tokens[position : position + 1], position)

        return timed(each)

    return f"llama.cpp {library.version} ({processor})", {"prefill": prefill, "decode": decode}


def torch(checkpoint: str) -> tuple[str, Mapping[str, Call]]:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16).eval()
    vocabulary = int(model.config.vocab_size)

    def prefill(count: int, threads: int) -> float:
        torch.set_num_threads(threads)
        tokens = torch.from_numpy(tokens_below(vocabulary, count))[None]
        with torch.inference_mode():
            return timed(lambda: model(input_ids=tokens, use_cache=True, logits_to_keep=1))

    def decode(count: int, threads: int) -> float:
        torch.set_num_threads(threads)
        tokens = torch.from_numpy(tokens_below(vocabulary, count))[None]

        def each() -> None:
            past = None
            for position in range(count):
                answer = model(input_ids=tokens[:, position : position + 1], past_key_values=past, use_cache=True)
                past = answer.past_key_values

        with torch.inference_mode():
            return timed(each)

    name = f"PyTorch {torch.__version__}, transformers {transformers.__version__}"
    return name, {"prefill": prefill, "decode": decode}


def ort(rows: str, columns: str) -> tuple[str, Mapping[str, Call]]:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    n, k = int(rows), int(columns)
    random = np.random.Generator(np.random.PCG64(1))
    weights = numpy_helper.from_array(random.integers(-127, 128, (k, n)).astype(np.int8), "w")
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, k])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT32, [None, n])]
    graph = helper.make_graph(nodes, "product", inputs, outputs, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    sessions: dict[int, onnxruntime.InferenceSession] = {}

    def product(count: int, threads: int) -> float:
        if threads not in sessions:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            sessions[threads] = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        x = random.standard_normal((count, k)).astype(np.float32)
        return timed(lambda: sessions[threads].run(None, {"x": x}))

    return f"onnxruntime {onnxruntime.__version__}", {"product": product}


def main() -> None:
    kinds: dict[str, Callable[..., tuple[str, Mapping[str, Call]]]] = {"llama": llama, "torch": torch, "ort": ort}
    name, calls = kinds[sys.argv[1]](*sys.argv[2:])
    print(name, flush=True)
    for line in sys.stdin:
        call, count, threads = line.split()
        print(calls[call](int(count), int(threads)), flush=True)


if __name__ == "__main__":
    main()
