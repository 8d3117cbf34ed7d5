"""Floor 7. The command `fxai`, for people.

`main` reads the command line, runs it and ends the process. What it needs is imported when a command
does. A function that cannot do its work raises a `CliError`, which says what is wrong and what to do.
"""

from __future__ import annotations

from fxai.cli.command import main

__all__ = ["main"]
