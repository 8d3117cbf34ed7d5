"""The plan of a type: its wire type for `msgspec`, the conversions to the Python value, and its JSON Schema.

A type without codecs is its own wire type and has no conversions. In a type with codecs, the wire type of a codec
replaces the Python type of the codec. A mirror replaces each class that contains a codec. The mirror is a struct with
the same names on the wire.

`msgspec` derives the JSON Schema, and this module changes it:

- The root is an object, not a reference.
- It removes titles that repeat the name of a class, and empty `required` lists.
- It removes `uniqueItems` of sets, because the decoder accepts duplicate items.
- It removes `discriminator`, because JSON Schema does not have this keyword.
- It requires a tag only if the tag distinguishes a struct from another struct, like the decoder.

Objects are open or closed like in the decoder.

>>> from datetime import datetime
>>> from fxai.schema.codecs import EPOCH_MILLIS
>>> plan = plan_of(dict[str, Annotated[datetime, EPOCH_MILLIS]])
>>> plan.wire.__args__[1].__origin__, plan.step.inward({"a": 0})["a"].year
(<class 'int'>, 1970)
>>> derive(plan_of(dict[str, int]))
{'type': 'object', 'additionalProperties': {'type': 'integer'}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import count
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    Never,
    NoReturn,
    Union,
    cast,
    final,
    get_args,
    get_origin,
)

import msgspec

from fxai.schema.conversion import (
    Arm,
    Choice,
    Coded,
    Conversion,
    Entries,
    Fields,
    Fixed,
    Items,
    Slot,
    UnfitError,
)
from fxai.schema.data import Empty, every_object, is_object
from fxai.schema.fault import SchemaError
from fxai.schema.mapping_keys import add_omitted, classes_of
from fxai.schema.type_info import (
    ABSENT,
    Member,
    Survey,
    arms_of,
    codec_of,
    find_foreign,
    is_class,
    kind_of,
    members_of,
    plain_type,
    survey,
)

if TYPE_CHECKING:
    from fxai.schema.foreign import Foreign

_UNION: Final[Any] = Union
_DICT: Final[Any] = dict
_LIST: Final[Any] = list
_TUPLE: Final[Any] = tuple
_UNSET: Final = msgspec.UNSET
_NUMBERS: Final = count()


@final
class Plan(msgspec.Struct, frozen=True):
    """The plan for decoding and encoding the values of a type.

    Attributes:
        type: The Python type.
        wire: The type that `msgspec` decodes.
        step: The conversion between wire values and Python values, or None if they are equal.
        survey: The contents of the wire type.
        defaults: By mirror class, the wire form of each default, for the JSON Schema.
        foreigners: The steps of the types of pydantic, by the value of their mark in the JSON Schema.
    """

    type: Any
    wire: Any
    step: Conversion | None
    survey: Survey
    defaults: dict[Any, dict[str, Any]]
    foreigners: dict[int, Foreign] = {}


def plan_of(tp: Any) -> Plan:
    """Compile the plan of a type.

    Raises:
        SchemaError: If the type has no JSON form. The message names the type, the location, and the remedy.
    """
    found = survey(tp)
    if not found.coded:
        return Plan(tp, plain_type(tp), None, found, {})
    deriving = _Deriving()
    wire, step = deriving.of(tp)
    inside = survey(wire)
    inside.hashed |= found.hashed  # also if the wire type is a list, and the value is a set
    if deriving.foreigners:
        inside.open_ended = found.open_ended  # the wire type accepts any data, and pydantic only some data
    return Plan(tp, wire, step, inside, deriving.defaults, deriving.foreigners)


def mirrored_class(cls: Any) -> Any:
    """Return the class of a mirror. Return any other class unchanged."""
    return getattr(cls, "__fxai_mirror_of__", cls)


_Derived = tuple[Any, "Conversion | None"]


@final
class _Deriving:
    """A derivation, with its finished mirrors and the mirrors of incomplete classes."""

    def __init__(self) -> None:
        self.done: dict[Any, _Derived] = {}
        self.open: dict[Any, tuple[str, Fields]] = {}
        self.closing: dict[str, Any] = {}
        self.waiting: list[tuple[str, Any]] = []
        self.defaults: dict[Any, dict[str, Any]] = {}
        self.foreigners: dict[int, Foreign] = {}

    def of(self, tp: Any) -> _Derived:
        tp = plain_type(tp)
        if (coded := codec_of(tp)) is not None:
            return self._codec(*coded)
        if (of_pydantic := find_foreign(tp)) is not None:
            return self._foreign(*of_pydantic)
        if get_origin(tp) is Annotated:
            wire, step = self.of(tp.__origin__)
            return (tp, None) if step is None else (_with_notes(wire, tp.__metadata__), step)
        if (arms := arms_of(tp)) is not None:
            return self._union(tp, arms)
        if kind_of(tp) is not None:
            return self._class(tp) if survey(tp).coded else (tp, None)
        return self._container(tp)

    def _codec(self, tp: Any, codec: Any, after: tuple[Any, ...]) -> _Derived:
        wire, inner = self.of(codec.wire)
        metas = tuple(note for note in after if isinstance(note, msgspec.Meta))
        keywords = _beside(codec.json_schema() or {}, metas)
        metas = (msgspec.Meta(extra_json_schema=keywords), *metas) if keywords else metas
        return (_with_notes(wire, metas) if metas else wire), Coded(codec, tp, wire, inner)

    def _foreign(self, tp: Any, metas: tuple[msgspec.Meta, ...]) -> _Derived:
        from fxai.schema.foreign import MARK, foreign

        step = foreign(tp)
        self.foreigners[step.number] = step
        return _with_notes(Any, (msgspec.Meta(extra_json_schema={MARK: step.number}), *metas)), step

    def _union(self, tp: Any, arms: tuple[Any, ...]) -> _Derived:
        derived = [self.of(arm) for arm in arms]
        if all(step is None for _, step in derived):
            return tp, None
        choice = tuple(
            Arm(_fits(wire), _fits(_python(arm)), step) for arm, (wire, step) in zip(arms, derived, strict=True)
        )
        wires = tuple(wire for wire, _ in derived)
        return _UNION[wires], Choice(
            choice, " or ".join(str(getattr(_python(arm), "__name__", _python(arm))) for arm in arms)
        )

    def _container(self, tp: Any) -> _Derived:
        origin, arguments = get_origin(tp), get_args(tp)
        if origin is None or origin is Literal or not is_class(origin) or not arguments:
            return tp, None
        if issubclass(origin, tuple) and not (len(arguments) == 2 and arguments[1] is Ellipsis):
            derived = [self.of(argument) for argument in arguments]
            steps = tuple(step for _, step in derived)
            return (tp, None) if not any(steps) else (_TUPLE[tuple(wire for wire, _ in derived)], Fixed(steps))
        if issubclass(origin, Mapping):
            (key, key_step), (value, value_step) = self.of(arguments[0]), self.of(arguments[1])
            if key_step is None and value_step is None:
                return tp, None
            return _DICT[key, value], Entries(key_step, value_step)
        wire, step = self.of(arguments[0])
        return (tp, None) if step is None else (_LIST[wire], Items(_maker(origin), step))

    def _class(self, tp: Any) -> _Derived:
        if tp in self.done:
            return self.done[tp]
        if tp in self.open:
            name, step = self.open[tp]
            return ForwardRef(name), step
        cls = get_origin(tp) or tp
        name, step = f"_fxai_wire_{next(_NUMBERS)}", Fields(cls, dict if kind_of(tp) == "typed-dict" else cls)
        self.open[tp] = (name, step)
        self._mirror(tp, name, step)
        del self.open[tp]
        self.done[tp] = step.mirror, step
        return step.mirror, step

    def _mirror(self, tp: Any, name: str, step: Fields) -> None:
        """Create the mirror of a class and complete its conversion."""
        members = members_of(tp) or ()
        derived = [self.of(member.type) for member in members]
        mirror = step.mirror = _mirror_class(tp, members, [wire for wire, _ in derived])
        arrayed = mirror.__struct_config__.array_like
        omitting = getattr(getattr(step.cls, "__struct_config__", None), "omit_defaults", False)
        step.slots = tuple(
            Slot(
                member.name,
                member.init_name,
                index if arrayed else member.encode_name,
                way,
                _is_default(member) if omitting else None,
            )
            for index, (member, (_, way)) in enumerate(zip(members, derived, strict=True))
        )
        self.defaults[mirror] = dict(_defaults(step.slots, members))
        self._tie(name, mirror)

    def _tie(self, name: str, mirror: Any) -> None:
        """Define the names of enclosing classes in each mirror, because a mirror can refer to them."""
        self.closing[name] = mirror
        self.waiting.append((name, mirror))
        for _, made in self.waiting:
            for known, cls in self.closing.items():
                setattr(made, known, cls)


_BOUNDS_OF: Final = {
    "minimum": ("ge", "gt"),
    "maximum": ("le", "lt"),
    "minLength": ("min_length",),
    "maxLength": ("max_length",),
}


def _beside(keywords: dict[str, Any], metas: tuple[msgspec.Meta, ...]) -> dict[str, Any]:
    """Return the keywords of a codec. A keyword that a bound of the type would hide moves to `allOf`."""
    hidden: dict[str, Any] = {}
    for keyword, names in _BOUNDS_OF.items():
        bounds = [limit for meta in metas for name in names if (limit := getattr(meta, name)) is not None]
        if keyword in keywords and bounds:
            bound = keywords.pop(keyword)
            if keyword not in ("minimum", "maximum") or (bound > bounds[0]) == (keyword == "minimum"):
                hidden[keyword] = bound
    return {**keywords, "allOf": [hidden]} if hidden else keywords


def _with_notes(tp: Any, notes: tuple[Any, ...]) -> Any:
    annotated: Any = Annotated
    return annotated[(tp, *notes)]


def _mirror_class(tp: Any, members: Sequence[Member], wires: list[Any]) -> Any:
    kind, cls = kind_of(tp), get_origin(tp) or tp
    config = getattr(cls, "__struct_config__", None)
    fields: list[Any] = []
    for member, wire in zip(members, wires, strict=True):
        renamed = member.encode_name if member.encode_name != member.name else None
        if member.required:
            fields.append((member.name, wire, msgspec.field(name=renamed)) if renamed else (member.name, wire))
        else:
            fields.append((member.name, _UNION[wire, msgspec.UnsetType], msgspec.field(default=_UNSET, name=renamed)))
    tuple_like = kind == "named-tuple"
    return msgspec.defstruct(
        component_name(tp),
        fields,
        namespace={"__doc__": _doc(cls), "__fxai_mirror_of__": tp},
        module=cls.__module__,
        frozen=True,
        kw_only=not tuple_like and not (config is not None and config.array_like),
        array_like=tuple_like or (config is not None and config.array_like),
        forbid_unknown_fields=tuple_like or (config is not None and config.forbid_unknown_fields),
        tag=None if config is None else config.tag,
        tag_field=None if config is None else config.tag_field,
    )


def component_name(tp: Any) -> str:
    """Return the name of a class that `msgspec` writes in a JSON Schema."""
    name = str(getattr(get_origin(tp) or tp, "__name__", tp))
    arguments = ", ".join(component_name(argument) for argument in get_args(tp))
    return "".join(c if c.isalnum() else "_" for c in f"{name}[{arguments}]") if arguments else name


def _doc(cls: Any) -> str | None:
    doc = cls.__dict__.get("__doc__")
    written = isinstance(doc, str) and not doc.startswith(f"{cls.__name__}(")
    return cast("str", doc) if written else None


def _is_default(member: Member) -> Callable[[Any], bool] | None:
    """Return a function that recognizes the values that a struct omits as defaults, or None.

    Like `msgspec`, it compares with the default, or recognizes the empty value of a factory.
    """
    if member.default is not ABSENT:
        return lambda value: value is member.default or value == member.default
    if member.default_factory in (list, dict, set):
        return lambda value: type(value) is member.default_factory and not value
    return None


def _default_of(member: Member) -> Any:
    if member.default is ABSENT and member.default_factory in (list, dict, set, frozenset, tuple, bytearray):
        make = cast("Callable[[], Any]", member.default_factory)
        return make()
    return member.default


def _defaults(slots: Sequence[Slot], members: Sequence[Member]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for slot, member in zip(slots, members, strict=True):
        default = _default_of(member)
        if default is ABSENT or default is _UNSET:
            continue
        try:
            wire = default if slot.step is None else slot.step.outward(default)
            found.append((member.encode_name, msgspec.to_builtins(wire, str_keys=True)))
        except (UnfitError, TypeError, ValueError):
            continue  # omit a default that has no wire form
    return found


def _maker(origin: Any) -> Callable[[Any], Any]:
    if issubclass(origin, tuple):
        return tuple
    if issubclass(origin, frozenset):
        return frozenset
    return set if issubclass(origin, Set) else list


def _python(tp: Any) -> Any:
    coded = codec_of(plain_type(tp))
    return tp if coded is None else coded[0]


def _fits(tp: Any) -> Callable[[Any], bool]:
    """Return a function that recognizes the values of a type by their class, without their contents."""
    tp = plain_type(tp)
    if isinstance(tp, ForwardRef):
        return lambda value: mirrored_class(value.__class__) is not value.__class__
    if get_origin(tp) is Annotated:
        return _fits(_python(tp.__origin__))
    if (arms := arms_of(tp)) is not None:
        fitting = [_fits(_python(arm)) for arm in arms]
        return lambda value: any(fits(value) for fits in fitting)
    if get_origin(tp) is Literal:
        chosen = get_args(tp)
        return lambda value: any(type(value) is type(choice) and value == choice for choice in chosen)
    return _fits_class(dict if kind_of(tp) == "typed-dict" else get_origin(tp) or tp)


def _fits_class(cls: Any) -> Callable[[Any], bool]:
    if cls is Any or not is_class(cls):
        return lambda _: True
    if cls is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    if cls is float:
        return lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)
    return lambda value: isinstance(value, cls)


# ---- the JSON Schema of a plan

_ANYTHING: Final = "x-fxai-anything"  # replaces an empty schema, which the hook cannot return
_DEFS: Final = "#/$defs/"


def derive(plan: Plan, *, written: bool = False) -> dict[str, Any]:
    """Return the JSON Schema document (2020-12) of the wire type of a plan, as new plain data.

    Args:
        plan: The plan.
        written: True for the JSON data that the type encodes. It can differ by the types of pydantic. Default: False.

    Raises:
        SchemaError: If a default of the type has no JSON form.
    """
    if plan.wire in (Never, NoReturn):
        return {"not": {}}
    if plan.wire is Empty:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    root, components = _components(plan)
    for component in components.values():
        _tidy(component)
    for mirror, defaults in plan.defaults.items():
        _add_defaults(components.get(mirror.__name__), defaults)
    if plan.survey.tags:
        _require_tags(plan.survey.tags, root, components)
    if plan.step is not None:
        for schema in (root, *components.values()):
            _types_first(schema)
    root = _inline(root, components, recursive=plan.survey.open_ended)
    if plan.survey.sets:
        for schema in (root, *components.values()):
            _without_unique(schema)
    for schema in (root, *components.values()) if plan.foreigners else ():
        _insert_foreign(schema, plan.foreigners, components, written=written)
    document = {**root, "$defs": components} if components else root
    for schema in every_object(document) if plan.survey.objects else ():
        schema.pop(_ANYTHING, None)
    return document


def _components(plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        incomplete = plan.survey.keyed or plan.survey.omitted
        classes = classes_of(plan.wire) if incomplete else []
        (root, *references), components = msgspec.json.schema_components(
            [plan.wire, *classes], ref_template=_DEFS + "{name}", schema_hook=_anything
        )
    except (TypeError, ValueError, NotImplementedError) as error:
        raise SchemaError(f"cannot derive a JSON Schema of {plan.type!r}: {error}") from None
    components = dict(components)
    if incomplete:
        names = [str(one["$ref"]).removeprefix(_DEFS) for one in references]
        known = dict(zip(classes, names, strict=True))
        add_omitted(plan.wire, root, known, components, keys=plan.survey.keyed)
    return root, components


def _anything(tp: Any) -> dict[str, Any]:
    if tp is object:
        return {_ANYTHING: True}
    raise NotImplementedError


def _tidy(component: dict[str, Any]) -> None:
    component.pop("title", None)
    if component.get("required") == []:
        del component["required"]


def _add_defaults(component: dict[str, Any] | None, defaults: dict[str, Any]) -> None:
    properties = cast("dict[str, dict[str, Any]]", (component or {}).get("properties", {}))
    for name, default in defaults.items():
        if name in properties:
            properties[name].setdefault("default", default)


def _inline(root: dict[str, Any], components: dict[str, Any], *, recursive: bool) -> dict[str, Any]:
    """Return the component that the root refers to. The component also remains in `$defs` if another schema uses it."""
    reference = root.get("$ref")
    if not isinstance(reference, str):
        return root
    name = reference.removeprefix(_DEFS)
    component = components[name]
    if not recursive or msgspec.json.encode({"$ref": reference})[1:-1] not in msgspec.json.encode(components):
        del components[name]
    return {**component, **{key: value for key, value in root.items() if key != "$ref"}}


def _require_tags(tags: dict[Any, str], root: dict[str, Any], components: dict[str, Any]) -> None:
    """Require a tag if it distinguishes a struct from other structs, and not if the struct is the only alternative."""
    fields = {component_name(tp): field for tp, field in tags.items()}
    locations = [location for schema in (root, *components.values()) for location in _locations(schema)]
    tagged = [arm for location in locations if location.pop("discriminator", None) for arm in location["anyOf"]]
    among = {id(arm) for arm in tagged}
    alone: dict[str, list[dict[str, Any]]] = {}
    for location in locations:
        name = str(location.get("$ref", "")).removeprefix(_DEFS)
        if name in fields and name in components and id(location) not in among:
            alone.setdefault(name, []).append(location)
    shared = {str(arm.get("$ref", "")).removeprefix(_DEFS) for arm in tagged} & set(alone)
    for name in shared:
        for location in alone[name]:
            location["$ref"] = f"{_DEFS}{name}_alone"
    for name in alone:
        component = components[name]
        if name in shared:
            component = components[f"{name}_alone"] = {**component}
        component["required"] = [one for one in component.get("required", ()) if one != fields[name]]
        _tidy(component)


def _types_first(schema: object) -> None:
    """Move the keywords of a codec after the `type`."""
    for location in _locations(schema):
        if "type" in location and next(iter(location)) in (
            "minimum",
            "maximum",
            "maxLength",
            "pattern",
            "allOf",
            "format",
        ):
            ordered = {"type": location["type"], **location}
            location.clear()
            location.update(ordered)


def _locations(schema: object) -> Iterator[dict[str, Any]]:
    """Iterate over a schema and all schemas inside it, without defaults and examples."""
    if not is_object(schema):
        return
    yield schema
    listed = (*schema.get("anyOf", ()), *schema.get("prefixItems", ()), *schema.get("properties", {}).values())
    for inner in (schema.get("items"), schema.get("additionalProperties"), *listed):
        yield from _locations(inner)


def _insert_foreign(
    schema: dict[str, Any], foreigners: Mapping[int, Foreign], components: dict[str, Any], *, written: bool
) -> None:
    """Insert the JSON Schema of each type of pydantic, and its definitions."""
    from fxai.schema.document import relocate
    from fxai.schema.foreign import MARK

    for location in list(_locations(schema)):
        if MARK not in location:
            continue
        document = foreigners[location.pop(MARK)].describe(written=written)
        definitions = document.pop("$defs", {})
        if any(components.get(name, one) != one for name, one in definitions.items()):
            document = relocate({**document, "$defs": definitions}, "", components, "")
        else:
            components.update(definitions)
        document.update(location)
        location.clear()
        location.update(document)


def _without_unique(schema: object) -> None:
    """Remove `uniqueItems` from the schemas of sets."""
    for location in _locations(schema):
        if location.get("type") == "array" and location.get("uniqueItems") is True:
            del location["uniqueItems"]
