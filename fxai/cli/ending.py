r"""Endings: a command does its work; what stops it is a line on stderr and an exit code, with `--json` an object too.

>>> import click
>>> from click.testing import CliRunner
>>> @click.command()
... def hello():
...     ended(lambda out, err: bool(out.write("hello\n")), as_json=False, debug=False)
>>> CliRunner().invoke(hello).output
'hello\n'
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn, TextIO

import click

from fxai.cli.trouble import PIPE_CLOSED, Trouble

__all__ = ["ended", "errors_only", "stop", "warnings_on", "writable"]


def ended(
    work: Callable[[TextIO, TextIO], bool], *, as_json: bool, debug: bool, closing: dict[str, str] | None = None
) -> None:
    """Does the work, which says whether all was well. What others print meanwhile goes to stderr, not between ours.

    Args:
        work: is given where results go, and where everything else goes.
        as_json: whether trouble is written as an object, too.
        debug: whether it shows where something broke.
        closing: what else such an object says.

    Raises:
        click.exceptions.Exit: something was not well.
    """
    stdout, stderr = writable(sys.stdout), writable(sys.stderr)
    try:
        with redirect_stdout(stderr), warnings_on(stderr):
            well = work(stdout, stderr)
        stdout.flush()
    except BrokenPipeError:
        stop(Trouble("nobody reads the output any more", "", code=PIPE_CLOSED), stderr, debug=debug)
    except Trouble as trouble:
        if as_json and trouble.code != PIPE_CLOSED:
            error = {**(closing or {}), "ok": False, "error": trouble.to_data()}
            stdout.write(json.dumps(error, ensure_ascii=False) + "\n")
        stop(trouble, stderr, debug=debug)
    if not well:
        click.get_current_context().exit(1)


@contextmanager
def warnings_on(stderr: TextIO) -> Generator[None]:
    """Has what fxai logs, from warnings on, written as lines of the command, while the block lasts."""
    log, handler = logging.getLogger("fxai"), logging.StreamHandler(stderr)
    handler.setFormatter(logging.Formatter("fxai: %(message)s"))
    before = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before


@contextmanager
def errors_only(logger: str) -> Generator[None]:
    """Has a logger say nothing that is less than an error, while the block lasts."""
    log = logging.getLogger(logger)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def stop(trouble: Trouble, stderr: TextIO, *, debug: bool) -> NoReturn:
    """Says what the command stopped at, and ends it.

    Raises:
        click.exceptions.Exit: always, with the code of the trouble.
    """
    if trouble.code == PIPE_CLOSED:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is for nobody
    else:
        if debug and trouble.cause is not None:
            traceback.print_exception(trouble.cause, file=stderr)
        print(f"fxai: {trouble}", file=stderr)
    click.get_current_context().exit(trouble.code)


def writable(stream: TextIO | None) -> TextIO:
    """The stream, one that no text is too odd for; one that goes nowhere where there is none."""
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    reconfigure: Any = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    return stream
