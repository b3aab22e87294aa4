"""The application: its commands, and how errors and warnings reach the user."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from conal import __version__
from conal.cli.aggregate import aggregate
from conal.cli.convert import convert
from conal.cli.demo import demo
from conal.cli.export import export
from conal.cli.fit import fit
from conal.cli.inspect import inspect
from conal.cli.measure import measure
from conal.cli.options import say, with_flags, with_settings
from conal.cli.plan import plan
from conal.cli.predict import predict
from conal.cli.rank import rank
from conal.cli.report import report
from conal.cli.simulate import simulate
from conal.cli.update import update
from conal.errors import ConalError, InputError, missing_package

UsageProblem: Any = typer.BadParameter.__mro__[2]
"""Base class of the errors that Typer raises for bad usage: Click's ClickException, which newer versions include."""

app = typer.Typer(
    name="conal",
    help="Train classifiers directly from crowd labels, and see which annotators and labels to trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (aggregate, convert, demo, export, fit, inspect, measure, plan, predict, rank, report, simulate, update)
for command in COMMANDS:
    app.command()(command)


def _show_version(asked: bool) -> None:
    if asked:
        say(f"conal {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, metavar="", help="Show the version and exit."),
    ] = False,
) -> None:
    """Train classifiers directly from crowd labels, and see which annotators and labels to trust."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end; it cleans up as after Ctrl-C."""


def main() -> None:
    """Run the command line.

    The exit code is 0, 2 for bad usage or input, 1 for failure, 3 where a condition of ``conal measure`` is not met,
    130 when interrupted, and 143 when terminated.
    """
    _make_output_encodable()
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", category=UserWarning)
    try:
        with _terminable():
            code = app(standalone_mode=False, prog_name="conal")
            sys.stdout.flush()
    except Terminated:
        _fail("terminated", 143)
    except ConalError as error:
        _fail(f"error: {_one_line(error)}", 2 if isinstance(error, InputError) else 1)
    except UsageProblem as error:
        _fail(_usage_line(error), error.exit_code)
    except OSError as error:
        _discard_broken_stdout()
        _fail(f"error: {_one_line(error)}", 1)
    except ModuleNotFoundError as error:
        _fail(_missing_line(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", 130)
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # Python wraps what is raised while a class is made, in an import say
            cause = cause.__cause__
        if not isinstance(cause, KeyboardInterrupt):
            raise
        _fail("terminated", 143) if isinstance(cause, Terminated) else _fail("interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, which schedulers and ``kill`` send, ends the command like Ctrl-C; a second one changes nothing."""
    received: list[int] = []

    def end(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_IGN)
        raise Terminated

    before = signal.getsignal(signal.SIGTERM)
    if before in (None, signal.SIG_IGN) or threading.current_thread() is not threading.main_thread():
        yield  # who started the process wants it so, or another thread must decide
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if received:  # Typer takes it for Ctrl-C
            raise Terminated


def _make_output_encodable() -> None:
    """A terminal of few characters must not end a command whose files are written."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _missing_line(error: ModuleNotFoundError) -> str:
    """What is missing: `pip install conal` brings what works on labels alone."""
    if error.name is None or error.name.partition(".")[0] == "conal":
        raise error
    return f"error: {missing_package(error.name, 'this command')}"


def _usage_line(error: Any) -> str:
    """What is wrong with the arguments, and where to find help; empty if the help has been shown already."""
    message = _one_line(error.format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    hint = f"; see {context.command_path} --help" if context is not None else ""
    return f"error: {message}{hint}" if message else ""


def _one_line(message: object) -> str:
    line = with_flags(" ".join(line.strip() for line in str(message).splitlines()))
    command = typer.main.get_group(app).commands.get(next(iter(sys.argv[1:]), ""))
    return line if command is None else with_settings(line, {flag for each in command.params for flag in each.opts})


def _discard_broken_stdout() -> None:
    """If standard output cannot be written, to a full disk say, Python must not try it again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):  # a stream without a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> None:
    if message:
        say(message, err=True)
    sys.exit(code)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print conal's own warnings as one line on standard error; ignore those of other libraries."""
    if category.__module__.startswith("conal"):
        say(f"warning: {_one_line(message)}", err=True)
