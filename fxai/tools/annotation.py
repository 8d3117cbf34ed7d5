"""Annotations of tools. Use this module to read an annotation of a tool, or to define your own annotation.

An annotation is a key with a default. Each tool has an immutable map from annotations to values. To define your own
annotation, write `Annotation("team", default="nobody")`.

>>> Annotations().set(Title, "Weather").get(Title), Annotations().get(Destructive)
('Weather', True)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Generic, Literal, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.schema.data import frozen, is_array
from fxai.schema.json_schema import JsonSchema

_K = TypeVar("_K")


def _frozen(value: Any) -> Any:
    return tuple(frozen(value)) if is_array(value) else frozen(value)


@final
class Annotation(Generic[_K]):
    """A key of an annotation map, with a default value. Two annotations with the same name are the same key.

    Args:
        name: Name of the key.
        default: Value of an unset key.
        types: Allowed classes of a value. Default: `bool` if the default is a bool; otherwise any class.

    >>> Annotations({Readonly: "yes"})
    Traceback (most recent call last):
    ...
    TypeError: annotation 'readonly' must be a bool, got 'yes'
    """

    __slots__ = ("_default", "_name", "_types")

    def __init__(self, name: str, default: _K, types: tuple[type, ...] = ()) -> None:
        self._name = name
        self._default: _K = _frozen(default)
        self._types = types or ((bool,) if isinstance(default, bool) else ())

    @property
    def name(self) -> str:
        """The unique name of the key, also for display."""
        return self._name

    @property
    def default(self) -> _K:
        """The value of an unset key."""
        return self._default

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Annotation) and cast(Any, other)._name == self._name

    @override
    def __hash__(self) -> int:
        return hash(self._name)

    @override
    def __repr__(self) -> str:
        return f"Annotation({self._name!r}, default={self._default!r})"

    def __reduce__(self) -> tuple[type[Annotation[Any]], tuple[str, _K, tuple[type, ...]]]:
        return (Annotation, (self._name, self._default, self._types))

    def freeze(self, value: object) -> Any:
        """Return a value of this key as immutable data.

        Raises:
            TypeError: If `value` has another type.
        """
        if self._types and not isinstance(value, self._types):
            expected = " or ".join("None" if one is NoneType else f"a {one.__name__}" for one in self._types)
            raise TypeError(f"annotation {self._name!r} must be {expected}, got {value!r:.200}")
        return _frozen(value)


Title: Annotation[str | None] = Annotation("title", None, (str, NoneType))
"""A name of the tool for people. The name of the tool itself is for the model."""

Readonly: Annotation[bool] = Annotation("readonly", default=False)
"""True if the tool changes nothing. Default: False. This annotation and its default match MCP's `readOnlyHint`."""

Destructive: Annotation[bool] = Annotation("destructive", default=True)
"""True if the tool can delete or overwrite data. False if it only adds data. Default: True."""

Idempotent: Annotation[bool] = Annotation("idempotent", default=False)
"""True if a repeated call with the same parameters has no further effect. Default: False."""

Resumable: Annotation[bool] = Annotation("resumable", default=False)
"""True if a durable run can resume a started call, because it journals all steps of the call, as for a sub-agent."""

OpenWorld: Annotation[bool] = Annotation("open_world", default=True)
"""True if the tool accesses external systems, such as the web. Default: True."""

Strict: Annotation[bool | None] = Annotation("strict", None, (bool, NoneType))
"""True or False sets strict mode for this tool. By default, the configuration or the provider decides."""

ExplicitNull: Annotation[bool] = Annotation("explicit_null", default=False)
"""True to distinguish null from an omitted value in strict mode, for each optional parameter that allows null.

By default, the model sends null for both, and fxai treats null as omitted. The model then cannot send a null that
differs from an omitted value. The strict form lists each of these locations as a weakened constraint.
"""

JsonText: Annotation[bool] = Annotation("json_text", default=True)
"""True to parse a JSON string if the schema requires an object or an array. Models often send nested JSON as a string.

fxai tries this only if the arguments do not match the schema. If False, fxai rejects the string. Default: True.
"""

MaxResultTokens: Annotation[int | None] = Annotation("max_result_tokens", None, (int, NoneType))
"""Maximum number of tokens of a result in the conversation, or None for the maximum of `LargeResults`.

Only an agent with `large_results` uses the annotation.
"""

Meta: Annotation[Mapping[str, Any]] = Annotation("meta", {}, (Mapping,))
"""Other data, such as the `_meta` of a tool from an MCP server."""

# -- annotations for some providers; the `prepare_tools` of any other provider warns

Caller: TypeAlias = Literal["direct", "programmatic"]
"""The callers of a tool: the model, or a program that the model wrote and the provider runs."""

CacheTime: TypeAlias = Literal["default", "5m", "1h"]
"""The lifetime of a provider's cache entry: the provider's default, five minutes, or one hour."""


@final
class ToolNamespace(msgspec.Struct, frozen=True):
    """A group of tools for the model, with a name and a purpose. Equal namespaces are the same group."""

    name: str
    description: str


DeferLoading: Annotation[bool] = Annotation("defer_loading", default=False)
"""True to hide the tool from the model until the model finds it by a search. Requires a tool search tool."""

FindsTools: Annotation[bool] = Annotation("finds_tools", default=False)
"""True for a tool that searches deferred tools. Its result must have the form `{"tools": [{"name": "…"}]}`.

Anthropic receives such a result as references to the deferred tools of the request, and the model can then call them.
"""

AllowedCallers: Annotation[tuple[Caller, ...]] = Annotation("allowed_callers", (), (list, tuple))
"""The allowed callers. `()` uses the provider's default, which is only the model."""

OutputSchema: Annotation[JsonSchema | None] = Annotation("output_schema", None)
"""The schema of the results, for programs that call the tool, such as `tool.success.document`. None means no schema."""

CacheControl: Annotation[CacheTime | None] = Annotation("cache_control", None, (str, NoneType))
"""The lifetime of a provider's cache of the request up to this tool. None means no cache mark at this tool."""

EagerInputStreaming: Annotation[bool | None] = Annotation("eager_input_streaming", None, (bool, NoneType))
"""True to stream arguments unchecked while the model writes them, or False for checked pieces.

None: True in a streamed response.
"""

Namespace: Annotation[ToolNamespace | None] = Annotation("namespace", None, (ToolNamespace, NoneType))
"""The namespace of the tool. None means no namespace."""


@final
class Annotations:
    """An immutable map from annotations to values. An unset annotation has its default value."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Annotation[Any], Any] | None = None) -> None:
        self._values: dict[Annotation[Any], Any] = {}
        for key, value in (values or {}).items():
            if not isinstance(cast(object, key), Annotation):
                raise TypeError(f"annotation must be an Annotation, such as Readonly, got {key!r}")

            self._values[key] = key.freeze(value)

    def get(self, key: Annotation[_K]) -> _K:
        """Return the value of `key`, or its default."""
        return cast(_K, self._values.get(key, key.default))

    def set(self, key: Annotation[_K], value: _K) -> Annotations:
        """Return the map with `value` for `key`."""
        return Annotations({**self._values, key: value})

    def merge(self, other: Annotations) -> Annotations:
        """Return the map of both. If both maps contain a key, the value of `other` is used."""
        return Annotations({**self._values, **other._values})

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[Annotation[Any]]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Annotations) and self._values == other._values

    @override
    def __hash__(self) -> int:
        return hash(frozenset(k.name for k in self._values))  # some values are not hashable

    @override
    def __repr__(self) -> str:
        return f"Annotations({', '.join(f'{k.name}={v!r}' for k, v in self._values.items())})"

    def __reduce__(self) -> tuple[type[Annotations], tuple[dict[Annotation[Any], Any]]]:
        return (Annotations, (dict(self._values),))
