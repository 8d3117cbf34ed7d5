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

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from decimal import Decimal
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
    TypeAlias,
    Union,
    cast,
    final,
    get_args,
    get_origin,
)
from weakref import WeakKeyDictionary

import msgspec
from msgspec import inspect as nodes

from fxai.schema.conversion import (
    Arm,
    Choice,
    Coded,
    Conversion,
    Entries,
    Fields,
    Items,
    Slot,
    UnfitError,
)
from fxai.schema.data import Empty, JsonObject, every_object, is_object
from fxai.schema.fault import SchemaError
from fxai.schema.mapping_keys import DEFS, add_omitted
from fxai.schema.type_info import (
    ABSENT,
    Member,
    arms_of,
    check_defaults,
    check_key,
    check_pattern,
    codec_of,
    contains_itself,
    is_class,
    kind_of,
    members_of,
    name_of,
    plain_type,
    without_notes,
)

if TYPE_CHECKING:
    from fxai.schema.foreign import Foreign

_ANNOTATED: Final[Any] = Annotated
_UNION: Final[Any] = Union
_DICT: Final[Any] = dict
_LIST: Final[Any] = list
_TUPLE: Final[Any] = tuple
_UNSET: Final = msgspec.UNSET
_NUMBERS: Final = count()
_KNOWN: Final = frozenset((str, int, bool, type(None), bytes, list, dict))


@final
class Survey(msgspec.Struct):
    """The result of a walk over a type. A `bool` is True if the type contains at least one part with the property."""

    open_ended: bool = False
    """A type that accepts any JSON value, or a class that contains itself. The type does not limit the depth."""
    floats: bool = False
    """A type that accepts any value, or numbers that can be infinite or NaN."""
    blurred: bool = False
    """A decimal. A Python value that equals a decimal can have another type."""
    sets: bool = False
    """A set."""
    hashed: bool = False
    """A set or a mapping whose values or keys are not strings, so Python's hash of them has no secret."""
    keyed: bool = False
    """A mapping with keys that are not plain strings."""
    omitted: bool = False
    """A date, a time, or a decimal, because `msgspec` omits a keyword for it."""
    indirect: bool = False
    """A set with bounds, or a mapping with decimals as keys. `msgspec` decodes their JSON text unlike the same data."""
    float_keys: bool = False
    """A mapping with numbers as keys. `msgspec` accepts the key `"NaN"`."""
    objects: bool = False
    """The type `object`. It accepts any JSON value."""
    tags: dict[Any, str] = {}
    """The names of the tag fields, by struct."""

    def take(self, other: Survey) -> None:
        """Add the findings of another walk."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) | getattr(other, name))


@final
class Plan(msgspec.Struct, frozen=True):
    """The plan for decoding and encoding the values of a type."""

    type: Any
    """The Python type."""
    wire: Any
    """The type that `msgspec` decodes."""
    step: Conversion | None
    """The conversion between wire values and Python values, or None if they are equal."""
    survey: Survey
    """The contents of the wire type."""
    defaults: dict[Any, JsonObject]
    """The wire form of each default in the JSON Schema, by mirror class."""
    foreigners: dict[int, Foreign] = {}
    """The steps of the types of pydantic, by the value of their mark in the JSON Schema."""


def plan_of(tp: object) -> Plan:
    """Compile the plan of a type.

    Raises:
        SchemaError: If the type has no JSON form. The message names the type, the location, and the remedy.
    """
    deriving = _Deriving()
    wire, step = deriving.of(tp, name_of(tp))
    return Plan(tp, wire, step, deriving.found, deriving.defaults, deriving.foreigners)


def mirrored_class(cls: object) -> Any:
    """Return the class of a mirror. Return any other class unchanged."""
    return getattr(cls, "__fxai_mirror_of__", cls)


_Derived: TypeAlias = "tuple[Any, Conversion | None]"
_PLAIN: Final[WeakKeyDictionary[type[Any], Survey]] = WeakKeyDictionary()  # the surveys of structs without codecs


@final
class _Deriving:
    """A walk over a type, with its finished classes and the mirrors of incomplete classes."""

    def __init__(self) -> None:
        self.found = Survey()
        self.codecs = 0
        self.done: dict[Any, tuple[Any, Fields | None, Survey, set[Any]]] = {}  # the last set is as `referred`
        self.open: dict[Any, tuple[str, Fields]] = {}
        self.referred: set[Any] = set()  # the open classes to which the finished parts refer
        self.mirrors: dict[str, type[Any]] = {}
        self.defaults: dict[Any, JsonObject] = {}
        self.foreigners: dict[int, Foreign] = {}

    def of(self, tp: Any, location: str) -> _Derived:
        """Return the wire type of a type, and its conversion or None. Add its contents to `found`."""
        if tp is str or tp is int or tp is bool:
            return tp, None
        if tp is float:
            self.found.floats = True
            return tp, None
        tp = plain_type(tp)
        if (coded := codec_of(tp)) is not None:
            return self._codec(*coded, location)
        if "pydantic" in sys.modules:
            from fxai.schema.foreign import foreign_of  # most programs have no types of pydantic

            if (of_pydantic := foreign_of(tp)) is not None:
                return self._foreign(*of_pydantic, location)
        if contains_itself(tp):
            raise SchemaError(
                f"the alias {tp} at {location} contains itself, and msgspec cannot decode it. Use a class that contains"
                " itself, or import pydantic to decode the alias."
            )
        if get_origin(tp) is Annotated:
            origin = get_origin(plain_type(tp.__origin__))
            bounds = [note.min_length or note.max_length for note in tp.__metadata__ if isinstance(note, msgspec.Meta)]
            self.found.indirect |= is_class(origin) and issubclass(origin, Set) and any(bounds)
            wire, step = self.of(tp.__origin__, location)
            return (tp, None) if step is None else (_ANNOTATED[(wire, *tp.__metadata__)], step)
        if (arms := arms_of(tp)) is not None:
            return self._union(tp, arms, location)
        if kind_of(tp) is not None:
            return self._class(tp)
        return (tp, None) if get_origin(tp) is Literal else self._container(tp, location)

    def _codec(self, tp: object, codec: Any, after: tuple[Any, ...], location: str) -> _Derived:
        self.codecs += 1
        check_pattern(codec, location)
        wire, inner = self.of(codec.wire, location)
        metas = tuple(note for note in after if isinstance(note, msgspec.Meta))
        keywords = _beside(codec.json_schema() or {}, metas)
        metas = (msgspec.Meta(extra_json_schema=keywords), *metas) if keywords else metas
        return (_ANNOTATED[(wire, *metas)] if metas else wire), Coded(codec, tp, wire, inner)

    def _foreign(self, tp: Any, metas: tuple[msgspec.Meta, ...], location: str) -> _Derived:
        from fxai.schema.foreign import MARK, foreign

        try:
            step = foreign(tp)
        except SchemaError as error:
            message = str(error)
            raise SchemaError(
                message if message.startswith(location) else f"{location}: {message}"
            ) from error.__cause__
        self.codecs += 1
        self.foreigners[step.number] = step
        self.found.floats = True
        self.found.open_ended |= step.open_ended
        return _ANNOTATED[(Any, msgspec.Meta(extra_json_schema={MARK: step.number}), *metas)], step

    def _union(self, tp: object, arms: tuple[Any, ...], location: str) -> _Derived:
        derived = [self.of(arm, location) for arm in arms]
        if all(step is None for _, step in derived):
            return tp, None
        choice = tuple(
            Arm(_fits(wire), _fits(_python(arm)), step) for arm, (wire, step) in zip(arms, derived, strict=True)
        )
        wires = tuple(wire for wire, _ in derived)
        return _UNION[wires], Choice(
            choice, " or ".join(str(getattr(_python(arm), "__name__", _python(arm))) for arm in arms)
        )

    def _container(self, tp: Any, location: str) -> _Derived:
        self._leaf(tp, location)
        origin, arguments = get_origin(tp), get_args(tp)
        is_mapping = is_class(origin) and issubclass(origin, Mapping)
        if is_mapping or (is_class(origin) and issubclass(origin, Set)):
            self.found.hashed |= without_notes(arguments[0]) not in (str, bool, bytes)
        if is_mapping:
            key = without_notes(arguments[0])
            keys = [without_notes(arm) for arm in arms_of(key) or (key,)]
            self.found.keyed |= arguments[0] is not str
            self.found.indirect |= Decimal in keys
            self.found.float_keys |= float in keys
            check_key(arguments[0], location)
        derived = [(one, None) if one is Ellipsis else self.of(one, f"{location}[]") for one in arguments]
        if not is_class(origin) or all(step is None for _, step in derived):
            return tp, None
        if issubclass(origin, tuple) and arguments[-1] is not Ellipsis:
            return _TUPLE[tuple(wire for wire, _ in derived)], Items(tuple, tuple(step for _, step in derived))
        if is_mapping:
            (key_wire, key_step), (value, value_step) = derived
            return _DICT[key_wire, value], Entries(key_step, value_step)
        wire, step = derived[0]
        maker = next((made for kind, made in _MAKERS if issubclass(origin, kind)), list)
        return (tp, None) if step is None else (_LIST[wire], Items(maker, step))

    def _leaf(self, tp: Any, location: str) -> None:
        """Add the contents of a type without its arguments."""
        cls, found = get_origin(tp) or tp, self.found
        if cls in (Any, object) or (cls in (list, dict, tuple, set, frozenset) and not get_args(tp)):
            found.open_ended = found.floats = True
            found.sets |= cls in (set, frozenset)
            found.hashed |= cls in (set, frozenset)
            found.objects |= cls is object
            return
        if isinstance(cls, type) and issubclass(cls, (tuple, Set)):
            found.sets |= issubclass(cls, Set)
            return
        if cls in _KNOWN or tp in (Never, NoReturn, msgspec.UnsetType):
            return
        try:
            node = nodes.type_info(tp)
        except (TypeError, RecursionError):
            return  # the decoder of msgspec raises the error
        if isinstance(node, nodes.CustomType):
            hint = (
                ""
                if "pydantic" in sys.modules
                else " If pydantic knows the type, import pydantic before you use the type."
            )
            raise SchemaError(
                f"{name_of(tp)} at {location} has no JSON form that msgspec knows. Declare a codec:"
                f" Annotated[{name_of(tp)}, Schema.codec(wire=str, decode=…, encode=…)].{hint}"
            )
        found.blurred |= isinstance(node, nodes.DecimalType)
        found.omitted |= isinstance(node, (nodes.DateTimeType, nodes.TimeType, nodes.DecimalType))
        bare = not get_args(tp) and isinstance(node, (nodes.DictType, nodes.CollectionType))
        if bare or isinstance(node, (nodes.RawType, nodes.AnyType)):
            found.open_ended = found.floats = True
        elif isinstance(node, (nodes.VarTupleType, nodes.SetType, nodes.FrozenSetType)):
            found.sets |= not isinstance(node, nodes.VarTupleType)

    def _class(self, tp: Any) -> _Derived:
        if is_class(tp) and (plain := _PLAIN.get(tp)) is not None:
            self.found.take(plain)
            return tp, None
        if tp in self.done:
            wire, known, own, outer = self.done[tp]
            if not outer.isdisjoint(self.open):
                self.referred |= outer  # unknown yet, because an open class decides
            elif known is not None:
                self.codecs += 1
            self.found.take(own)
            return wire, known
        if tp in self.open:
            self.found.open_ended = True
            self.referred.add(tp)
            name, step = self.open[tp]
            return ForwardRef(name), step
        cls = get_origin(tp) or tp
        name, step = f"_fxai_wire_{next(_NUMBERS)}", Fields(cls, dict if kind_of(tp) == "typed-dict" else cls)
        self.open[tp] = (name, step)
        (found, referred), own, finished, codecs = (self.found, self.referred), Survey(), len(self.done), self.codecs
        self.found, self.referred = own, set[Any]()
        config = getattr(cls, "__struct_config__", None)
        if config is not None and config.tag_field is not None and not config.array_like:
            own.tags[tp] = config.tag_field
        check_defaults(tp)
        called = name_of(tp)
        derived = {member.name: self.of(member.type, f"{called}.{member.name}") for member in members_of(tp) or ()}
        del self.open[tp]
        outer = self.referred & self.open.keys() if self.codecs == codecs else set[Any]()
        self.found, self.referred = found, referred | outer
        self.found.take(own)
        if self.codecs == codecs and not outer:
            for inner in list(self.done)[finished:]:  # classes between both occurrences of a recursive class
                _, made, inside, _ = self.done[inner]
                self.defaults.pop(None if made is None else made.mirror, None)
                self.done[inner] = inner, None, inside, outer
            self.done[tp] = tp, None, own, outer
            if config is not None and is_class(tp) and not own.tags:  # tags refer to the class and keep it alive
                _PLAIN[tp] = own
            return tp, None
        self._mirror(tp, name, step, derived)
        self.done[tp] = step.mirror, step, own, outer
        return step.mirror, step

    def _mirror(self, tp: Any, name: str, step: Fields, derived: Mapping[str, _Derived]) -> None:
        """Create the mirror of a class and complete its conversion."""
        members = members_of(tp) or ()
        mirror = step.mirror = _mirror_class(tp, members, [derived[member.name][0] for member in members])
        arrayed = mirror.__struct_config__.array_like
        omitting = getattr(getattr(step.cls, "__struct_config__", None), "omit_defaults", False)
        step.slots = tuple(
            Slot(
                member.name,
                member.init_name,
                index if arrayed else member.encode_name,
                derived[member.name][1],
                _is_default(member) if omitting else None,
            )
            for index, member in enumerate(members)
        )
        defaults = self.defaults[mirror] = JsonObject()
        for slot, member in zip(step.slots, members, strict=True):
            default: Any = member.default
            if default is ABSENT and member.default_factory in (list, dict, set, frozenset, tuple, bytearray):
                default = cast("Callable[[], Any]", member.default_factory)()
            if default is not ABSENT and default is not _UNSET:
                with suppress(UnfitError, TypeError, ValueError):  # omit a default that has no wire form
                    sent = default if slot.step is None else slot.step.outward(default)
                    defaults[member.encode_name] = msgspec.to_builtins(sent, str_keys=True)
        self.mirrors[name] = mirror
        for made in self.mirrors.values():  # a mirror can refer to an enclosing class by its name
            for known, cls in self.mirrors.items():
                setattr(made, known, cls)


_MAKERS: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = (
    (tuple, tuple),
    (frozenset, frozenset),
    (Set, set),
)
_BOUNDS_OF: Final = {
    "minimum": ("ge", "gt"),
    "maximum": ("le", "lt"),
    "minLength": ("min_length",),
    "maxLength": ("max_length",),
}


def _beside(keywords: JsonObject, metas: tuple[msgspec.Meta, ...]) -> JsonObject:
    """Return the keywords of a codec. A keyword that a bound of the type would hide moves to `allOf`."""
    hidden: JsonObject = {}
    for keyword, names in _BOUNDS_OF.items():
        bounds = [limit for meta in metas for name in names if (limit := getattr(meta, name)) is not None]
        if keyword in keywords and bounds:
            bound = keywords.pop(keyword)
            if keyword not in ("minimum", "maximum") or (bound > bounds[0]) == (keyword == "minimum"):
                hidden[keyword] = bound
    return {**keywords, "allOf": [hidden]} if hidden else keywords


def _mirror_class(tp: Any, members: Sequence[Member], wires: list[Any]) -> Any:
    cls = get_origin(tp) or tp
    config = getattr(cls, "__struct_config__", None)
    is_tuple = kind_of(tp) == "named-tuple"
    arrayed = is_tuple or (config is not None and config.array_like)
    fields: list[tuple[str, Any, Any]] = []
    for member, wire in zip(members, wires, strict=True):
        if member.required:
            fields.append((member.name, wire, msgspec.field(name=member.encode_name)))
        else:
            optional = _UNION[wire, msgspec.UnsetType]
            fields.append((member.name, optional, msgspec.field(default=_UNSET, name=member.encode_name)))
    doc = str(cls.__dict__.get("__doc__") or "")
    written = None if doc.startswith(f"{cls.__name__}(") else doc or None  # a dataclass writes its signature
    return msgspec.defstruct(
        component_name(tp),
        fields,
        namespace={"__doc__": written, "__fxai_mirror_of__": tp},
        module=cls.__module__,
        frozen=True,
        kw_only=not arrayed,
        array_like=arrayed,
        forbid_unknown_fields=is_tuple or (config is not None and config.forbid_unknown_fields),
        tag=None if config is None else config.tag,
        tag_field=None if config is None else config.tag_field,
    )


def component_name(tp: object) -> str:
    """Return the name of a class that `msgspec` writes in a JSON Schema."""
    name = str(getattr(get_origin(tp) or tp, "__name__", tp))
    arguments = ", ".join(component_name(argument) for argument in get_args(tp))
    return "".join(c if c.isalnum() else "_" for c in f"{name}[{arguments}]") if arguments else name


def _is_default(member: Member) -> Callable[[Any], bool] | None:
    """Return a function that recognizes the values that a struct omits as defaults, or None.

    Like `msgspec`, it compares with the default, or recognizes the empty value of a factory.
    """
    if member.default is not ABSENT:
        return lambda value: value is member.default or value == member.default
    if member.default_factory in (list, dict, set):
        return lambda value: type(value) is member.default_factory and not value
    return None


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
    cls: Any = dict if kind_of(tp) == "typed-dict" else get_origin(tp) or tp
    if cls is Any or not is_class(cls):
        return lambda _: True
    if cls is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    if cls is float:
        return lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)
    return lambda value: isinstance(value, cls)


# ---- the JSON Schema of a plan

_ANYTHING: Final = "x-fxai-anything"  # replaces an empty schema, which the hook cannot return


def derive(plan: Plan, *, written: bool = False) -> JsonObject:
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
    for mirror, defaults in plan.defaults.items():
        properties: dict[str, JsonObject] = components.get(mirror.__name__, {}).get("properties", {})
        for name in (name for name in defaults if name in properties):
            properties[name].setdefault("default", defaults[name])
    if plan.survey.tags:
        _require_tags(plan.survey.tags, root, components)
    for location in _locations(root, *components.values()) if plan.survey.sets or plan.step is not None else ():
        if plan.survey.sets and location.get("type") == "array":
            location.pop("uniqueItems", None)
        if plan.step is not None and "type" in location:  # before the keywords of a codec
            unordered = {**location}
            location.clear()
            location.update({"type": unordered["type"], **unordered})
    root = _inline(root, components, recursive=plan.survey.open_ended)
    if plan.foreigners:
        _insert_foreign(root, plan.foreigners, components, written=written)
    document = {**root, "$defs": components} if components else root
    for schema in every_object(document) if plan.survey.objects else ():
        schema.pop(_ANYTHING, None)
    return document


def _components(plan: Plan) -> tuple[JsonObject, JsonObject]:
    def anything(tp: object) -> JsonObject:
        if tp is object:
            return {_ANYTHING: True}
        raise NotImplementedError

    try:
        (root,), components = msgspec.json.schema_components(
            [plan.wire], ref_template=DEFS + "{name}", schema_hook=anything
        )
    except (TypeError, ValueError, NotImplementedError) as error:
        raise SchemaError(f"cannot derive a JSON Schema of {plan.type!r}: {error}") from None
    components = dict(components)
    if plan.survey.keyed or plan.survey.omitted:
        add_omitted(plan.wire, root, components, keys=plan.survey.keyed)
    for component in components.values():
        _tidy(component)
    return root, components


def _tidy(component: JsonObject) -> None:
    component.pop("title", None)
    if component.get("required") == []:
        del component["required"]


def _inline(root: JsonObject, components: JsonObject, *, recursive: bool) -> JsonObject:
    """Return the component that the root refers to. The component also remains in `$defs` if another schema uses it."""
    reference = root.get("$ref")
    if not isinstance(reference, str):
        return root
    name = reference.removeprefix(DEFS)
    component = components[name]
    if not recursive or msgspec.json.encode({"$ref": reference})[1:-1] not in msgspec.json.encode(components):
        del components[name]
    return {**component, **{key: value for key, value in root.items() if key != "$ref"}}


def _require_tags(tags: dict[Any, str], root: JsonObject, components: JsonObject) -> None:
    """Require a tag if it distinguishes a struct from other structs, and not if the struct is the only alternative."""
    fields = {component_name(tp): field for tp, field in tags.items()}
    locations = list(_locations(root, *components.values()))
    tagged = [arm for location in locations if location.pop("discriminator", None) for arm in location["anyOf"]]
    among = {id(arm) for arm in tagged}
    alone: dict[str, list[JsonObject]] = {}
    for location in locations:
        name = str(location.get("$ref", "")).removeprefix(DEFS)
        if name in fields and name in components and id(location) not in among:
            alone.setdefault(name, []).append(location)
    shared = {str(arm.get("$ref", "")).removeprefix(DEFS) for arm in tagged} & set(alone)
    for name in shared:
        for location in alone[name]:
            location["$ref"] = f"{DEFS}{name}_alone"
    for name in alone:
        component = components[name]
        if name in shared:
            component = components[f"{name}_alone"] = {**component}
        component["required"] = [one for one in component.get("required", ()) if one != fields[name]]
        _tidy(component)


def _locations(*schemas: object) -> Iterator[JsonObject]:
    """Iterate over schemas and all schemas inside them, without defaults and examples."""
    for schema in filter(is_object, schemas):
        yield schema
        listed = (*schema.get("anyOf", ()), *schema.get("prefixItems", ()), *schema.get("properties", {}).values())
        yield from _locations(schema.get("items"), schema.get("additionalProperties"), *listed)


def _insert_foreign(
    root: JsonObject, foreigners: Mapping[int, Foreign], components: JsonObject, *, written: bool
) -> None:
    """Insert the JSON Schema of each type of pydantic, and its definitions."""
    from fxai.schema.document import relocate
    from fxai.schema.foreign import MARK

    for location in list(_locations(root, *components.values())):
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
