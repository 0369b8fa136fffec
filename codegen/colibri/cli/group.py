"""All commands: one file each, loaded when it is called. Commands parse, call one function and print."""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import os
import signal
import sys
import time
from collections.abc import Sequence

import click

from colibri import __version__
from colibri.cli import COMMANDS
from colibri.errors import NO_ROOM, ColibriError, UsageError, no_room

_LESS_MEMORY = "end other programs, or raise the limit; a smaller --context takes less"
_TIDYING = 3.0  # seconds; only a file system that does not answer takes longer


class _Lazy(click.Group):
    """Loads `cli/NAME.py` when NAME is asked for, so that `colibri --help` imports nothing heavy."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"colibri.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="colibri")
def group() -> None:
    """Turn a Mixture-of-Experts checkpoint into firmware.

    Exit codes: 0 fine, 1 a test failed, 2 wrong usage, 3 does not fit, 4 a tool is missing, 5 bad input, 6 compiler or
    linker failed, 7 emulator hung or crashed, 70 internal error, 130 interrupted.
    """


def run(arguments: Sequence[str] | None) -> int:
    """Run the command line and return its exit code."""
    interrupt = _Interrupt()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # all end as Ctrl-C: unfinished files go
        with contextlib.suppress(ValueError):  # not the main thread: somebody else's program, and signals
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` wants it
                signal.signal(number, interrupt)
    for stream in (sys.stdout, sys.stderr):  # names from files may hold what the terminal's encoding has not
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        # Not `group.main`, which has its own ways with interrupts and closed pipes.
        with group.make_context("colibri", given) as context:
            group.invoke(context)
        if sys.stdout is not None:  # it is None where the shell has closed it
            sys.stdout.flush()
        return 0
    except ColibriError as error:
        return _say(error)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.ClickException as error:
        return _say(_usage(error))
    except click.exceptions.Exit as error:  # --help, --version
        return error.exit_code
    except (BrokenPipeError, SystemExit):  # the reader of a pipe left early, as `head` does; the latter says rich
        _discard_output()
        return 0
    except MemoryError as error:
        return _say(ColibriError(f"out of memory: {error}" if str(error) else "out of memory", hint=_LESS_MEMORY))
    except Exception as error:  # the last line of defence: one line for people, the place for us
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            _discard_output()
            return _say(no_room(str(error.filename or "the output"), error))
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f" at {trace.tb_frame.f_code.co_name}:{trace.tb_lineno}" if trace is not None else ""
        return _say(ColibriError(f"internal error{place}: {type(error).__name__}: {error}"))


def _say(error: ColibriError) -> int:
    """One line on standard error; nowhere to say it is no reason for a traceback."""
    with contextlib.suppress(OSError):
        click.echo(f"colibri: {error}", file=sys.stderr, err=True)  # by itself it would write UTF-8 into ASCII
    return error.exit_code


def _usage(error: click.ClickException) -> UsageError:
    """What click found wrong with the arguments, in the words of all other errors."""
    what = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "colibri"
    command = path.removeprefix("colibri").strip()
    return UsageError(what[:1].lower() + what[1:], where=command, hint=f"see `{path} --help`")


def _discard_output() -> None:
    """What could not be written stays unwritten: Python would try again at its end, and print a traceback."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class _Interrupt:
    """Raises KeyboardInterrupt, but for a while only once: a second one would end the tidying up of the first.

    `timeout` sends its signal twice, as impatient people do.
    """

    def __init__(self) -> None:
        self._last = -math.inf

    def __call__(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if now - self._last > _TIDYING:
            self._last = now
            raise KeyboardInterrupt
