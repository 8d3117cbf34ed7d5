"""The oracle of validation: `jsonschema`, as it is, without a registry to fetch from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import jsonschema
from jsonschema.validators import validator_for

__all__ = ["oracle"]


def oracle(document: Mapping[str, Any] | bool) -> Callable[[object], bool]:
    """Return the function of `jsonschema` that tells whether a value is valid by a document."""
    chosen: Any = validator_for(document, default=jsonschema.Draft202012Validator)
    registry: Any = import_module("referencing").Registry()
    decide: Callable[[object], bool] = chosen(document, registry=registry).is_valid
    return decide
