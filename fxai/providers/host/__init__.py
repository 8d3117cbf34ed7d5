"""Floor 6. Hosts: an external program that speaks lines of text or JSON over stdio, as a model or as a tool.

`model("./program")` is the layer of a language model, `tool("name", "./program", parameters=…)` a source of tools. The
program is started with the scope and ended with it.

>>> model("cat", format="text").__class__.__name__
'LayerOf'
"""

from __future__ import annotations

from fxai.providers.host.failure import HostFailure, HostProblem
from fxai.providers.host.language import HostModel, model
from fxai.providers.host.operation import HostToolOptions, tool
from fxai.providers.host.program import Format, HostOptions, Lifetime, Take

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
