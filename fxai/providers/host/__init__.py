"""Hosts: external programs that read and write lines of text or JSON. Use them as models or as tools.

`model("./program")` returns the layer of a language model. `tool("name", "./program", parameters=…)` returns a source
of tools. The scope starts and ends the program.

>>> model("cat", format="text").__class__.__name__
'LayerOf'
"""

from __future__ import annotations

from fxai.providers.host.host import Format, HostFailure, HostOptions, HostProblem, Lifetime, Take
from fxai.providers.host.host_model import HostModel, model
from fxai.providers.host.host_tool import HostToolOptions, tool

__all__ = [
    "Format",
    "HostFailure",
    "HostModel",
    "HostOptions",
    "HostProblem",
    "HostToolOptions",
    "Lifetime",
    "Take",
    "model",
    "tool",
]
