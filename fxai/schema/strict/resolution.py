"""Whether a tool is sent as strict: the tool says, else the configuration, else the provider.

>>> resolve_strict(None, None, True), resolve_strict(None, False, True), resolve_strict(True, False, True)
(True, False, True)
>>> resolve_strict(True, True, None) is None
True
"""

from __future__ import annotations

__all__ = ["resolve_strict"]


def resolve_strict(annotation: bool | None, config: bool | None, default: bool | None) -> bool | None:
    """The strict flag of one tool; None where it is left out of the request.

    Args:
        annotation: what the tool's annotation `Strict` says; None: nothing.
        config: what the provider's configuration `strict_json_schema` says; None: nothing.
        default: what the provider does by itself; None where the model has no strict mode, so that nothing is sent.
    """
    if default is None:
        return None
    if annotation is not None:
        return annotation
    return default if config is None else config
