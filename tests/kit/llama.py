"""llama.cpp's own HTTP server with the weights of the extra `local`, until it is ended: `python llama.py TEMPLATE`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from fxai.providers.local import assemble


def main(template: str) -> None:
    """Serves on a free port of loopback, and says which."""
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(assemble())
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx, params.n_parallel = 2048, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.chat_template = Path(template).read_text("utf-8")
    params.sampling.temp = 0.0
    params.antiprompt = ["</tool_call>"]  # it has said all that it has to say; not every wire takes a stop text
    params.warmup = params.ui = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
