"""Tables of model facts: one data file per provider. Use this module to look up the facts about a model by its name.

An exact id wins over a dated id, and a dated id wins over its family. An unknown model takes the facts of the newest
model of its line. Some fields have a policy instead: a value that no model refuses.

>>> entry = Entry("small-2", ("small-2",), line="small", facts={"forced_calls": Fact(True), "prefill": Fact(False)})
>>> data = TableData("acme", date(2026, 11, 26), {}, (entry,))
>>> policy = Policy(known={"sampling": "never"}, unknown={"forced_calls": False})
>>> table = FactTable(lambda: data, lambda name: ModelName((name,), line=name.partition("-")[0]), policy)
>>> facts = table.facts("small-3")
>>> facts.family, facts.like, facts.prefill, facts.forced_calls, facts.sampling
(None, 'small-2', False, False, 'never')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, Final, final

import msgspec

from fxai.messages.part import WarningPart
from fxai.models.model_facts import FactSource, ModelFacts

_FILE: Final = "model_facts.json"
_OWN: Final = frozenset(("released", "retires"))  # an unknown model does not use these facts of another model


# -- the data file


@final
class Dispute(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Another value of a fact."""

    value: Any
    sources: tuple[str, ...] = msgspec.field(name="from", default=())


@final
class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fact in a data file, with keys of the legend as its sources."""

    value: Any
    sources: tuple[str, ...] = msgspec.field(name="from", default=())
    disputes: tuple[Dispute, ...] = msgspec.field(name="but", default=())
    reason: str = msgspec.field(name="why", default="")
    checked: date | None = None
    """The date of the last check if it differs from the date of the table."""


@final
class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A family of models that share their facts."""

    family: str
    names: tuple[str, ...]
    """The ids and aliases of the family."""
    line: str | None = None
    """The product line, such as `"opus"`."""
    served: bool = False
    """True if the provider serves the model at the date of the table."""
    facts: Mapping[str, Fact] = {}


@final
class TableData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a data file. The newest entry of each line comes first."""

    provider: str
    checked: date
    """The date of the last check."""
    legend: Mapping[str, str]
    """The descriptions of the sources by their keys."""
    families: tuple[Entry, ...]
    hosts: Mapping[str, Mapping[str, Fact]] = {}
    """Facts that a host changes for all models, by the name of the host."""


def read_table(package: str) -> TableData:
    """Return the contents of the data file of a package, such as `"fxai.providers.anthropic"`."""
    return msgspec.json.decode(files(package).joinpath(_FILE).read_bytes(), type=TableData)


# -- the lookup


@final
class ModelName(msgspec.Struct, frozen=True):
    """The reading of a model's name."""

    candidates: tuple[str, ...]
    """Names to look up, the most exact name first."""
    like: tuple[str, ...] = ()
    """Names of models that an unknown model resembles more than the newest model of its line."""
    line: str | None = None
    """The line of an unknown model. If it is None, the model resembles no entry."""
    host: str | None = None
    """The host whose naming scheme the name has, such as `"cloud"`."""


@final
class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Values for facts that no source states, by the field name."""

    known: Mapping[str, Any] = {}
    """Values for unknown facts. A field without a value stays None."""
    unknown: Mapping[str, Any] = {}
    """Values for unknown models. They win over the facts of the newest model of the line."""
    withheld: Mapping[str, tuple[Any, ...]] = {}
    """Items that fxai removes from a field of an unknown model, such as a thinking type that some models refuse."""


@final
class FactTable:
    """The facts about a provider's models. fxai reads the data file at the first lookup."""

    def __init__(self, read: Callable[[], TableData], parse: Callable[[str], ModelName], policy: Policy) -> None:
        """Create a table. `read` reads its data, and `parse` reads the name of a model."""
        self._read = read
        self._parse = parse
        self.policy = policy
        self.facts: Callable[[str], ModelFacts] = lru_cache(maxsize=512)(self._facts)
        """Return the facts about a model by its name; equal names share one value."""

    @cached_property
    def data(self) -> TableData:
        """The contents of the data file."""
        return self._read()

    @cached_property
    def _by_name(self) -> dict[str, Entry]:
        return {name: entry for entry in reversed(self.data.families) for name in (entry.family, *entry.names)}

    def complete(self, facts: ModelFacts) -> ModelFacts:
        """Return facts completed with the values of the policy."""
        return facts.with_policy(self.policy.known)

    def _facts(self, model: str) -> ModelFacts:
        name = self._parse(model)
        found = self._find(name.candidates)
        if found is not None:
            return self.complete(self._build(model, found.facts, name.host, family=found.family))
        newest = next((entry for entry in self.data.families if entry.line == name.line), None) if name.line else None
        return self.complete(self._assume(model, name.host, self._find(name.like) or newest))

    def _find(self, names: tuple[str, ...]) -> Entry | None:
        return next((self._by_name[one] for one in names if one in self._by_name), None)

    def _assume(self, model: str, host: str | None, like: Entry | None) -> ModelFacts:
        """Return the facts of an unknown model: the facts of an entry, and the values of the policy."""
        facts: Mapping[str, Fact] = {} if like is None else like.facts
        taken = {key: fact for key, fact in facts.items() if key not in _OWN and key not in self.policy.unknown}
        for key in self.policy.withheld.keys() & taken.keys():
            items: list[Any] = taken[key].value
            kept = [item for item in items if item not in self.policy.withheld[key]]
            taken[key] = msgspec.structs.replace(taken[key], value=kept)
        about: dict[str, Any] = {} if like is None else {"like": like.family}
        read = self._build(model, taken, host, **about)
        sources = {key: msgspec.structs.replace(source, assumed=True) for key, source in read.sources.items()}
        return msgspec.structs.replace(read, sources=sources).with_policy(self.policy.unknown)

    def _build(self, model: str, facts: Mapping[str, Fact], host: str | None, **about: Any) -> ModelFacts:
        facts = {**facts, **(self.data.hosts.get(host, {}) if host else {})}
        values = {key: fact.value for key, fact in facts.items()}
        sources = {key: self._source(fact) for key, fact in facts.items()}
        return ModelFacts(provider=self.data.provider, model=model, **about, **values, sources=sources)

    def _source(self, fact: Fact) -> FactSource:
        def spell(keys: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(self.data.legend.get(key, key) for key in keys)

        disputed: list[str] = []
        for one in fact.disputes:
            text = one.value if isinstance(one.value, str) else msgspec.json.encode(one.value).decode()
            disputed.append(f"{text} ({'; '.join(spell(one.sources))})")
        checked = fact.checked or self.data.checked
        return FactSource(spell(fact.sources), checked, tuple(disputed), fact.reason)


def unknown_model(facts: ModelFacts) -> WarningPart | None:
    """Return the warning that a model is unknown, or None if the table has an entry for the model."""
    if facts.family is not None:
        return None
    like = "the most careful values" if facts.like is None else f"most facts of {facts.like!r}"
    message = f"model {facts.model!r} is unknown: fxai assumes {like}. Pass facts= to state them."
    return WarningPart(message=message, kind="other", subject=facts.model)
