"""The command line: one file a command, loaded when it is called. Commands parse, call one function and print."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from collections.abc import Sequence

import click

from colibri import __version__
from colibri.errors import ColibriError

COMMANDS = ("boards", "build", "doctor", "generate", "inspect", "profile", "report", "run", "test")


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave as on Ctrl-C: emulators stop, unfinished files go
        with contextlib.suppress(ValueError):  # not the main thread: somebody else's program, and signals
            signal.signal(number, _interrupt)
    try:
        code = group.main(arguments, prog_name="colibri", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except ColibriError as error:
        click.echo(f"colibri: {error}", err=True)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("colibri: interrupted", err=True)
        return 130
    except SystemExit:  # click's answer to a reader of a pipe that left early
        return 0
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe left early, as `head` does
        return 0
    except Exception as error:  # the last line of defence: one line for people, the place for us
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f" at {trace.tb_frame.f_code.co_name}:{trace.tb_lineno}" if trace is not None else ""
        click.echo(f"colibri: internal error{place}: {type(error).__name__}: {error}", err=True)
        return 70


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def run_and_exit() -> None:
    """Entry point of the `colibri` program."""
    sys.exit(main())
