"""Names that a package imports later. Packages of fxai use `import_later`, so that a program loads only what it uses.

>>> find = import_later("fxai.schema", {"json_schema": "JsonSchema"})
>>> find("JsonSchema").__name__
'JsonSchema'
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_later(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package. It imports a module when a program first uses a name from the module.

    Args:
        package: The name of the package.
        names: The names of each module, separated by spaces. The key is the name of the module in the package.
    """
    modules = {name: module for module, names in names.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
