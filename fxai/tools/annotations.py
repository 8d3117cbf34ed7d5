"""Annotations: what is known of a tool, by typed keys.

An annotation is a key with a default; a tool carries an immutable map from such keys to values. Make your own with
`Annotation("team", default="nobody")`.

>>> Annotations().set(Title, "Weather").get(Title)
'Weather'
>>> Annotations().get(Destructive)
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, Literal, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.schema.data import frozen, is_array
from fxai.schema.json_schema import JsonSchema

__all__ = [
    "AllowedCallers",
    "Annotation",
    "Annotations",
    "CacheControl",
    "CacheTime",
    "Caller",
    "DeferLoading",
    "Destructive",
    "EagerInputStreaming",
    "ExplicitNull",
    "Idempotent",
    "JsonText",
    "Meta",
    "Namespace",
    "OpenWorld",
    "OutputSchema",
    "Readonly",
    "Strict",
    "Title",
    "ToolNamespace",
]

_K = TypeVar("_K")


def _frozen(value: Any) -> Any:
    return tuple(frozen(value)) if is_array(value) else frozen(value)


@final
class Annotation(Generic[_K]):
    """A key of annotation maps, with the value where nothing is set. Two keys of one name are one key."""

    __slots__ = ("_default", "_name")

    def __init__(self, name: str, default: _K) -> None:
        self._name = name
        self._default: _K = _frozen(default)

    @property
    def name(self) -> str:
        """What tells it from other keys, for people too."""
        return self._name

    @property
    def default(self) -> _K:
        """The value where nothing is set."""
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

    def __reduce__(self) -> tuple[type[Annotation[Any]], tuple[str, _K]]:
        return (Annotation, (self._name, self._default))


Title: Annotation[str | None] = Annotation("title", None)
"""A name for people, where the tool's own is for the model."""

Readonly: Annotation[bool] = Annotation("readonly", default=False)
"""It changes nothing. As MCP's `readOnlyHint`, whose defaults these are."""

Destructive: Annotation[bool] = Annotation("destructive", default=True)
"""It may destroy something, not only add. True unless said otherwise."""

Idempotent: Annotation[bool] = Annotation("idempotent", default=False)
"""Calling it again with the same parameters changes nothing more."""

OpenWorld: Annotation[bool] = Annotation("open_world", default=True)
"""It reaches what is outside of our control, such as the web. True unless said otherwise."""

Strict: Annotation[bool | None] = Annotation("strict", None)
"""Strict mode: True or False for this tool; None leaves it to the configuration, then to the provider."""

ExplicitNull: Annotation[bool] = Annotation("explicit_null", default=False)
"""In strict mode, a null is told from what is left out, in each optional parameter that admits null.

Otherwise null is sent for both and taken as left out, so that a null cannot be said where leaving out means something
else; the strict form lists each such place among what it weakens.
"""

JsonText: Annotation[bool] = Annotation("json_text", default=True)
"""JSON text where an object or an array belongs is read as what it says: models often send one nested in another.

It is looked for only where parameters do not fit. False: such a text is refused, as anything else that does not fit.
"""

Meta: Annotation[Mapping[str, Any]] = Annotation("meta", {})
"""Anything else, such as the `_meta` of an MCP server's tool."""

# -- what some providers do with a tool; where one does not, its `prepare_tools` warns

Caller: TypeAlias = Literal["direct", "programmatic"]
"""Who may call a tool: the model itself, or a program that the model wrote and the provider runs."""

CacheTime: TypeAlias = Literal["default", "5m", "1h"]
"""How long a provider keeps what it cached: its own default, five minutes, one hour."""


@final
class ToolNamespace(msgspec.Struct, frozen=True):
    """A group of tools, as the model sees it: a name, and what its tools are for. Equal ones are one group."""

    name: str
    description: str


DeferLoading: Annotation[bool] = Annotation("defer_loading", default=False)
"""The model is not shown the tool until it has searched for it; a tool search tool must be there as well."""

AllowedCallers: Annotation[tuple[Caller, ...]] = Annotation("allowed_callers", ())
"""Who may call it; `()` leaves it to the provider, whose default is the model alone."""

OutputSchema: Annotation[JsonSchema | None] = Annotation("output_schema", None)
"""What its results look like, for programs that call it: such as `tool.success.document`. None: not said."""

CacheControl: Annotation[CacheTime | None] = Annotation("cache_control", None)
"""Cache the request up to this tool, and for how long. None: no mark here."""

EagerInputStreaming: Annotation[bool | None] = Annotation("eager_input_streaming", None)
"""Whether parameters are streamed as they are written, not in checked pieces; None: yes, in a streamed answer."""

Namespace: Annotation[ToolNamespace | None] = Annotation("namespace", None)
"""The group that it is offered in; None: it stands alone."""


@final
class Annotations:
    """An immutable map from annotation keys to values; what is not set has the default of its key."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Annotation[Any], Any] | None = None) -> None:
        self._values: dict[Annotation[Any], Any] = {k: _frozen(v) for k, v in (values or {}).items()}

    def get(self, key: Annotation[_K]) -> _K:
        """The value of `key`, or its default."""
        return cast(_K, self._values.get(key, key.default))

    def set(self, key: Annotation[_K], value: _K) -> Annotations:
        """The map with `value` for `key`."""
        return Annotations({**self._values, key: value})

    def merge(self, other: Annotations) -> Annotations:
        """The map of both; for keys in both, the values of `other`."""
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
        return hash(frozenset(k.name for k in self._values))  # values may be anything

    @override
    def __repr__(self) -> str:
        return f"Annotations({', '.join(f'{k.name}={v!r}' for k, v in self._values.items())})"

    def __reduce__(self) -> tuple[type[Annotations], tuple[dict[Annotation[Any], Any]]]:
        return (Annotations, (dict(self._values),))
