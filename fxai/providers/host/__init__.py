"""Floor 6. Hosts: an external program that reads and writes lines of text or JSON, as a model or as a tool.

`model("./program")` is the layer of a language model, `tool("name", "./program", parameters=…)` a source of tools. The
program is started with the scope and ended with it.

>>> model("cat", format="text").__class__.__name__
'LayerOf'
"""

from __future__ import annotations

from fxai.providers.host.host_model import HostModel, model
from fxai.providers.host.host_tool import HostToolOptions, tool
from fxai.providers.host.program import Format, HostFailure, HostOptions, HostProblem, Lifetime, Take

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
