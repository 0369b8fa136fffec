"""Who evaluates: processes of this machine, or an executor of the user's, such as that of a cluster."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor

from colibri.errors import ColibriError, EmulatorFailed, UsageError, shown

_HINT = "name one as module:callable, which returns a concurrent.futures.Executor; or `processes`, or `threads`"
_OPTION = "--executor"
_OWN = (ProcessPoolExecutor, ThreadPoolExecutor)
_TIDYING = 5.0  # seconds that a worker without parent has for its scratch files


@contextlib.contextmanager
def workers(spec: str, jobs: int) -> Iterator[Executor]:
    """An executor for a block; what it has not begun when the block ends is not done.

    Args:
        spec: ``processes``, ``threads``, or ``module:callable``, whose answer is asked for nothing but `submit` and
            `shutdown`.
        jobs: evaluations at a time, for the two of this machine.

    Raises:
        UsageError: no such module or callable, or what it returns is no executor.
    """
    executor = _executor(spec, jobs)
    try:
        yield executor
    except BaseException:
        if isinstance(executor, _OWN):
            executor.shutdown(wait=False, cancel_futures=True)
        else:  # not all know more words than the first
            executor.shutdown(wait=False)
        if isinstance(executor, ProcessPoolExecutor):
            for process in multiprocessing.active_children():
                process.terminate()  # they tidy up, see `_ready`
            executor.shutdown(wait=True)
        raise
    executor.shutdown(wait=True)


def in_words(error: BaseException, executor: Executor) -> BaseException:
    """Return (not raise) what is to be said of an evaluation that failed: mostly the error itself.

    Where a worker died, or an executor of the user's lost its workers, it is an `EmulatorFailed`.
    """
    kept = "what was measured is kept"
    if isinstance(error, BrokenExecutor):
        hint = f"perhaps for lack of memory: try -j 1; {kept}"
        return EmulatorFailed("a worker ended without an answer", where=_OPTION, hint=hint)
    if isinstance(error, ColibriError) or not isinstance(error, Exception) or isinstance(executor, _OWN):
        return error
    return EmulatorFailed(f"failed with {type(error).__name__}: {shown(str(error))}", where=_OPTION, hint=kept)


def _executor(spec: str, jobs: int) -> Executor:
    if spec == "threads":
        return ThreadPoolExecutor(jobs)
    if spec == "processes":
        # Not forked: this process has threads, of the progress bar at least.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(jobs, context, _ready, (os.getpid(),))
    return _named(spec)


def _named(spec: str) -> Executor:
    where = f"{_OPTION} {shown(spec)}"
    module, colon, name = spec.partition(":")
    if not (colon and module and name):
        raise UsageError("is no module:callable", where=where, hint=_HINT)
    sys.path.insert(0, "")  # as `python -m` finds modules of the current folder
    try:
        made = _attribute(importlib.import_module(module), name, where)()
    except ColibriError:
        raise
    except ModuleNotFoundError as error:
        raise UsageError(f"there is no module '{shown(str(error.name))}'", where=where, hint=_HINT) from None
    except Exception as error:  # the user's code may fail in any way
        raise UsageError(f"failed with {type(error).__name__}: {shown(str(error))}", where=where) from None
    finally:
        sys.path.remove("")
    if not all(callable(getattr(made, method, None)) for method in ("submit", "shutdown")):
        raise UsageError(f"returned a {type(made).__name__}, not an executor", where=where, hint=_HINT)
    executor: Executor = made
    return executor


def _attribute(module: object, name: str, where: str) -> Callable[[], Executor]:
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UsageError(f"the module has no callable '{shown(name)}'", where=where, hint=_HINT)
    return found


def _ready(parent: int) -> None:
    """A worker leaves Ctrl-C to its parent, tidies up when it is asked to end, and does not outlive the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _end(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_TIDYING)
    os._exit(1)
