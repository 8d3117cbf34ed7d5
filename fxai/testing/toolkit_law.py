"""The laws of every toolkit: toolkits are joined as values are, and names on the wire lead back.

>>> from fxai.testing.law import Trial
>>> from fxai.tools.tool import Tool
>>> from fxai.tools.toolkit import Toolkit
>>> kit = Toolkit.make(Tool.make("a.b"), Tool.make("a__b"))
>>> TOOLKIT_LAWS[1].check(kit, "the toolkit", Trial())
Traceback (most recent call last):
fxai.testing.law.LawError: the toolkit breaks a law: names on the wire lead back to the tools ...
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from fxai.testing.law import Break, Law, Trial
from fxai.tools.naming import NameConflictError, NameMap, NameRule
from fxai.tools.toolkit import Toolkit

__all__ = ["TOOLKIT_LAWS"]

_RULES: Final = {"OpenAI": NameRule(64), "Anthropic": NameRule(128)}
_REPORT: Final = "report it: toolkits are values, joined in any grouping"


def _monoid(kit: Toolkit[Any], trial: Trial) -> Break | None:
    from hypothesis import strategies as st

    cuts = st.integers(0, len(kit))
    return trial.broken(st.tuples(cuts, cuts), partial(_joined, kit))


def _joined(kit: Toolkit[Any], cuts: tuple[int, int]) -> Break | None:
    tools, (first, second) = kit.as_tuple, sorted(cuts)
    a, b, c = (Toolkit.of(part) for part in (tools[:first], tools[first:second], tools[second:]))
    for what, one, other in (
        ("(a + b) + c is a + (b + c)", a.merge(b).merge(c), a.merge(b.merge(c))),
        ("its parts together are it", a.merge(b).merge(c), kit),
        ("with the empty one before it", Toolkit.empty().merge(kit), kit),
        ("with the empty one behind it", kit.merge(Toolkit.empty()), kit),
        ("with itself", kit.merge(kit), kit),
    ):
        if one != other:
            names = [[tool.name for tool in part] for part in (a, b, c)]
            return Break(names, "", f"it does not hold that {what}: {one!r} is not {other!r}", _REPORT)
    return None


def _names(kit: Toolkit[Any], _: Trial) -> Break | None:
    for provider, rule in _RULES.items():
        try:
            names = NameMap.of(kit, rule)
        except NameConflictError as error:
            return Break([tool.name for tool in kit], "", f"at {provider}, {error}", "rename or prefix one of them")
        for tool in kit:
            sent = names.sent(tool.name)
            if names.meant(sent) != tool.name:
                found = f"at {provider}, {sent!r} leads back to {names.meant(sent)!r}"
                return Break(tool.name, "", found, "rename one of them")
            if tool.provider is None and re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{rule.length}}}", sent) is None:
                return Break(tool.name, "", f"{provider} does not take the name {sent!r}", "rename it")
    return None


TOOLKIT_LAWS: Final = (
    Law("toolkits join as values", "merge is associative, the empty toolkit changes nothing, nor does itself", _monoid),
    Law("names lead back", "names on the wire lead back to the tools", _names),
)
"""What holds for every toolkit, each law for itself."""
