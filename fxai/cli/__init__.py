"""Level 7. The command line of fxai. The script `fxai` calls `main`.

`main` reads the arguments, runs the command, and ends the process with an exit code. Each command imports the modules
that it needs when it runs. If a function cannot do its work, it raises `CliError` with the error and a remedy.
"""

from __future__ import annotations

from fxai.cli.command import main

__all__ = ["main"]
