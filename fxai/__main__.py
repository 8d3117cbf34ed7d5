"""`python -m fxai`: the command `fxai`."""

from __future__ import annotations

from fxai.cli import main

if __name__ == "__main__":
    main()
