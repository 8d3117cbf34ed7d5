"""Validation by `jsonschema-rs`, the fast one, or `jsonschema`: neither ever fetches, and both tell the same faults.

Each is loaded when first used. The fast one decides; what it refuses is told by the faults that `jsonschema` finds, so
that a message does not depend on what is installed. Where a document lets its schemas multiply over the data, both
leave the decision to one that remembers what it knows and counts its steps.

>>> validate = validator_for({"type": "object", "required": ["q"]}, "jsonschema")
>>> [str(fault) for fault in validate({})]
['/q: expected a value, found nothing']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from itertools import islice
from typing import Any, Final, TypeAlias, cast, final

import msgspec

from fxai.schema.budget import MAX_FAULTS, MAX_LEVELS, MAX_STEPS, ExhaustedError, Steps, with_stack
from fxai.schema.data import is_array, is_object, is_same
from fxai.schema.decision import Decider, decider_of
from fxai.schema.dialect import METASCHEMAS, REF_ALONE, dialect_of
from fxai.schema.document import growth_of
from fxai.schema.fault import NOTHING, Fault, describe, either, found_in, in_order, pointer_of, pointer_to, quantity
from fxai.schema.parsing import too_deep, written
from fxai.schema.pattern import PatternTimeoutError, in_time


@final
class Breach(msgspec.Struct, frozen=True):
    """One keyword that a value breaks.

    Attributes:
        keyword: the keyword; `false` for a schema that takes nothing.
        schema: the schema that the keyword stands in, as far as it is known.
        path: where in the value.
        names: the properties it is about, where it is about some.
        branches: what is wrong by each alternative, of `anyOf` and `oneOf`.
        said: the validator's own message, for a keyword that is not known here.
        follow: gives what a schema inside of `schema` says, where it is a reference.
    """

    keyword: str
    schema: Mapping[str, Any]
    path: tuple[str | int, ...]
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Breach, ...], ...] = ()
    said: str = ""
    follow: Callable[[Any], Any] = lambda schema: schema

    @property
    def pointer(self) -> str:
        """Where in the value, as a JSON pointer."""
        return pointer_of(self.path)

    def at(self, root: object) -> Any:
        """What stands there, in the whole value."""
        there: Any = root
        for token in self.path:
            there = there[token]
        return there


def faults_of_breaches(breaches: Iterable[Breach], root: object) -> tuple[Fault, ...]:
    """The faults of what was found, each once, in the order of the value."""
    return in_order((fault for breach in breaches for fault in _faults(breach, root)), root)


def _faults(breach: Breach, root: object) -> Iterator[Fault]:
    there, pointer = breach.at(root), breach.pointer
    teller = _TELLERS.get(breach.keyword)
    if teller is not None:
        yield from teller(breach, root)
    elif breach.keyword == "false":
        yield Fault(pointer, "no value", found_in(there))
    elif breach.keyword in breach.schema:
        yield Fault(pointer, describe(_alone(breach.keyword, breach.schema), breach.follow), found_in(there))
    else:
        yield Fault(pointer, breach.said or f"what {breach.keyword!r} says", found_in(there))


def _alone(keyword: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema cut down to one keyword and the type that it is about."""
    beside = {"maximum": "exclusiveMaximum", "minimum": "exclusiveMinimum"}
    names = {keyword, beside.get(keyword, ""), *(name for name, other in beside.items() if other == keyword)}
    if keyword not in ("enum", "const"):
        names.add("type")
    return {name: schema[name] for name in names if name in schema}


# ---- keywords that are about members


def _missing(breach: Breach, root: object) -> Iterator[Fault]:
    schema, there = breach.schema, breach.at(root)
    if breach.names:
        wanted = list(breach.names)
    elif breach.keyword == "required":
        wanted = [name for name in schema.get("required", breach.names) if isinstance(name, str)]
    else:
        given = cast("Mapping[str, Any]", schema.get(breach.keyword, {}))
        lists = [names for name, names in given.items() if name in there and is_array(names)]
        wanted = [name for names in lists for name in cast("list[str]", names)]
    for name in wanted or breach.names:
        if name not in there:
            known = schema.get("properties", {}).get(name, True)
            yield Fault(pointer_to(breach.pointer, name), describe(known, breach.follow), NOTHING)


def _additional(breach: Breach, root: object) -> Iterator[Fault]:
    inner = breach.schema.get(breach.keyword, False)
    expected = "no property of this name" if inner is False else describe(inner, breach.follow)
    for name in breach.names:
        yield Fault(pointer_to(breach.pointer, name), expected, found_in(breach.at(root)[name]))


def _property_names(breach: Breach, _: object) -> Iterator[Fault]:
    expected = f"a property name that is {describe(breach.schema.get('propertyNames', False), breach.follow)}"
    for name in breach.names:
        yield Fault(pointer_to(breach.pointer, name), expected, f"name {name!r}")


def _items(breach: Breach, root: object) -> Iterator[Fault]:
    if breach.keyword == "unevaluatedItems":
        expected = "array without items beyond those described"
    else:
        places: Any = breach.schema.get("prefixItems" if breach.keyword == "items" else "items")
        expected = f"array of at most {quantity(len(places) if is_array(places) else 0, 'item')}"
    yield Fault(breach.pointer, expected, found_in(breach.at(root)))


def _contains(breach: Breach, root: object) -> Iterator[Fault]:
    schema = breach.schema
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    bounds = [f"at least {least}"] if least else []
    if most is not None:
        bounds.append(f"at most {most}")
    inner = describe(schema.get("contains", True), breach.follow)
    expected = f"array with {' and '.join(bounds)} of its items being {inner}"
    yield Fault(breach.pointer, expected, found_in(breach.at(root)))


def _alternatives(breach: Breach, root: object) -> Iterator[Fault]:
    """Of the alternatives, the one that the value is meant for, with its own faults; else what they all expect."""
    there, pointer = breach.at(root), breach.pointer
    branches = [branch for branch in breach.branches if branch]
    choices = breach.schema.get(breach.keyword, [])
    if not branches or len(branches) < len(breach.branches) or len(branches) < len(choices):
        expected = f"exactly one of: {_either(choices, breach.follow)}"
        yield Fault(pointer, expected, f"{found_in(there)}, which is several of them")
        return
    left: list[_Leaf] = _leaves(breach)
    left = [leaf for leaf in left if not any(_is_of_another_kind(inner, breach) for inner in leaf.breaches)] or left
    while is_object(there) and len(left) > 1:
        tags = [tag for tag in _shared_tags(left, breach.follow) if tag.told_of(there)]
        wrong = next((tag for tag in tags if not tag.fitting(there)), None)
        if wrong is not None:
            yield wrong.fault(there, pointer)
            return
        narrower = [found for tag in tags if len(found := tag.fitting(there)) < len(left)]
        if not narrower:
            break
        left = [left[index] for index in narrower[0]]
    yield from _closest(left, breach, root)


def _closest(left: list[_Leaf], breach: Breach, root: object) -> Iterator[Fault]:
    """Of what is left of the alternatives, the one whose kind the value is of; else what they expect."""
    there, pointer = breach.at(root), breach.pointer
    deeper = [leaf for leaf in left if not any(_is_kind(inner, breach) for inner in leaf.breaches)]
    only = left if len(left) == 1 and is_object(there) else deeper
    if len(only) == 1:
        yield from faults_of_breaches(only[0].breaches, root)
        return
    expected = _either([leaf.schema for leaf in left], breach.follow)
    if expected == "object" and is_object(there):
        expected = " or ".join(dict.fromkeys(_with_names(breach.follow(leaf.schema)) for leaf in left))
    yield Fault(pointer, expected, found_in(there))


def _with_names(schema: Any) -> str:
    """An object in words, where that it is one says nothing: by the names that it needs."""
    names: list[Any] = schema.get("required", []) if is_object(schema) else []
    return f"object with {' and '.join(map(repr, names))}" if is_array(names) and names else "object"


@final
class _Leaf(msgspec.Struct, frozen=True, eq=False):
    """One alternative that is no union itself: what it says, and what is wrong by it."""

    schema: Any
    breaches: tuple[Breach, ...]


def _leaves(breach: Breach) -> list[_Leaf]:
    """The alternatives of a union, those of unions inside it among them."""
    found: list[_Leaf] = []
    for schema, branch in zip(breach.schema.get(breach.keyword, []), breach.branches, strict=False):
        inner = next((one for one in branch if one.branches and one.path == breach.path), None)
        if inner is None or any(not part for part in inner.branches):
            found.append(_Leaf(schema, branch))
            continue
        rest = tuple(one for one in branch if one is not inner)
        around = breach.follow(schema)
        found += [
            _Leaf({"allOf": [_without_union(around), inner.follow(leaf.schema)]}, (*rest, *leaf.breaches))
            for leaf in _leaves(inner)
        ]
    return found


def _without_union(schema: Any) -> Any:
    return {key: said for key, said in schema.items() if key not in ("anyOf", "oneOf")} if is_object(schema) else schema


def _is_of_another_kind(inner: Breach, outer: Breach) -> bool:
    """Whether a breach is that the value itself is of another kind than an alternative takes."""
    return inner.path == outer.path and inner.keyword in ("type", "enum", "const", "false", "not")


def _is_kind(inner: Breach, outer: Breach) -> bool:
    """Whether a breach is that the value itself is of another kind, or of another tag, than an alternative takes."""
    tagged = len(inner.path) == len(outer.path) + 1 and inner.keyword in ("const", "enum")
    return tagged or _is_of_another_kind(inner, outer)


def _either(choices: Any, follow: Callable[[Any], Any], level: int = 0) -> str:
    return " or ".join(dict.fromkeys(describe(choice, follow, level) for choice in choices)) or "an alternative"


# ---- what tells alternatives apart

_ABSENT: Final = object()
_DEEPEST_TAG: Final = 3
_MOST_LOOKED_AT: Final = 500  # schemas, to find what tells the alternatives of one union apart


@final
class _Tag(msgspec.Struct, frozen=True, eq=False):
    """A place inside of an object at which each alternative lists its values, and whether each must have it."""

    path: tuple[str, ...]
    values: tuple[tuple[list[Any], bool], ...]

    def told_of(self, there: Any) -> bool:
        """Whether the place decides: it is there, or missing where all need it."""
        return self._at(there) is not _ABSENT or all(needed for _, needed in self.values)

    def fitting(self, there: Any) -> list[int]:
        """The alternatives whose values have what is there."""
        found = self._at(there)
        return [at for at, (values, _) in enumerate(self.values) if any(is_same(found, value) for value in values)]

    def fault(self, there: Any, pointer: str) -> Fault:
        """That none of them has it."""
        found = self._at(there)
        every = [value for values, _ in self.values for value in values]
        at = pointer + pointer_of(self.path)
        return Fault(at, either(every), NOTHING if found is _ABSENT else found_in(found))

    def _at(self, there: Any) -> Any:
        for name in self.path:
            there = there.get(name, _ABSENT) if is_object(there) else _ABSENT
        return there


def _shared_tags(leaves: list[_Leaf], follow: Callable[[Any], Any]) -> list[_Tag]:
    """The tags that all alternatives have, the outermost first."""
    steps = Steps(_MOST_LOOKED_AT)
    try:
        by_leaf = [dict(_tags(leaf.schema, follow, (), steps, needed=True)) for leaf in leaves]
    except ExhaustedError:
        return []
    shared = [path for path in by_leaf[0] if all(path in tags for tags in by_leaf)]
    return [_Tag(path, tuple(tags[path] for tags in by_leaf)) for path in sorted(shared, key=len)]


def _tags(
    schema: Any, follow: Callable[[Any], Any], path: tuple[str, ...], steps: Steps, *, needed: bool
) -> Iterator[tuple[tuple[str, ...], tuple[list[Any], bool]]]:
    """The places in an object at which a schema lists values, with the values, and whether they must be there."""
    steps.take()
    schema = follow(schema)
    if not is_object(schema) or len(path) > _DEEPEST_TAG:
        return
    for part in schema.get("allOf", ()):
        yield from _tags(part, follow, path, steps, needed=needed)
    if path and ("const" in schema or is_array(schema.get("enum"))):
        yield path, ([schema["const"]] if "const" in schema else schema["enum"], needed)
    required: Any = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        must = needed and is_array(required) and name in required
        yield from _tags(inner, follow, (*path, name), steps, needed=must)


def _late(breach: Breach, root: object) -> Iterator[Fault]:
    yield Fault(breach.pointer, breach.said, found_in(breach.at(root)))


_Teller = Callable[[Breach, object], Iterator[Fault]]
_TELLERS: Final[dict[str, _Teller]] = {
    **dict.fromkeys(("required", "dependentRequired", "dependencies"), _missing),
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties"), _additional),
    **dict.fromkeys(("items", "additionalItems", "unevaluatedItems"), _items),
    **dict.fromkeys(("contains", "minContains", "maxContains"), _contains),
    **dict.fromkeys(("anyOf", "oneOf"), _alternatives),
    "propertyNames": _property_names,
    "late": _late,
}


Validate: TypeAlias = Callable[[object], tuple[Fault, ...]]
"""What a compiled document does: every fault of plain JSON data."""


def validator_for(document: Any, engine: str | None) -> Validate:
    """A document compiled for an engine, or for `None` for the fast one; for the slow one where that is not possible.

    Raises `ImportError`: the engine that was asked for is not installed.
    """
    slow = _Slow(document)
    fast = _by_engine(document, engine, slow)

    def validate(value: object) -> tuple[Fault, ...]:
        return fast(value) if fast is not None and slow.is_light(value) else slow.faults(value)

    return validate


def _by_engine(document: Any, engine: str | None, slow: _Slow) -> Validate | None:
    """Validation by the fast package; None where it is not to be had, or cannot compile the document."""
    if engine == "jsonschema" or _lists_much(document):
        return None
    try:
        import jsonschema_rs
    except ImportError:
        if engine is None:
            return None
        raise ImportError("the engine jsonschema-rs is not installed: pip install 'fxai[fast]'") from None
    try:
        return _fast(document, slow)
    except (jsonschema_rs.ValidationError, ValueError):
        return None  # a pattern, say, that only the other one can compile


def _lists_much(document: Any) -> bool:
    """Whether an enumeration is long of what the fast package compares one by one, where the other one looks it up."""
    pending = [document]
    while pending:
        value = pending.pop()
        enum: Any = value.get("enum") if is_object(value) else None
        if is_array(enum) and sum(isinstance(one, (float, list, dict)) for one in enum) > _COMPARED:
            return True
        pending += value.values() if is_object(value) else value if is_array(value) else ()
    return False


_COMPARED: Final = 64

_TRIES: Final = 10_000
"""How many ways to match one pattern the fast package tries before it leaves the decision to the other one."""


class _Unasserted:
    """A keyword that only says something: content is checked by the fast package in old drafts, by us never."""

    def __init__(self, parent_schema: object, value: object, schema_path: object) -> None: ...

    def validate(self, instance: object) -> None:
        """Take everything."""


def _fast(document: Any, slow: _Slow) -> Validate:
    import jsonschema_rs

    try:
        validator = _fast_validator(document, None)
    except jsonschema_rs.ValidationError:
        validator = _fast_validator(document, _metaschemas())  # another dialect's, perhaps
    is_valid = validator.is_valid

    def validate(value: object) -> tuple[Fault, ...]:
        if is_valid(value):
            return ()
        faults = slow.find_faults(value)
        if faults:
            return faults
        # where the fast package stopped trying a pattern, the other one decides, within its time
        errors = (error for error in validator.iter_errors(value) if "backtracking" not in error.message)
        found = tuple(_fast_fault(error, value) for error in islice(errors, MAX_FAULTS))
        return found or slow.faults(value)  # it gave up on a pattern: the other one decides, to the end

    return validate


def _fast_validator(document: Any, registry: Any) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        document,
        validate_formats=False,
        offline=True,
        registry=registry,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_TRIES),
        keywords={"contentMediaType": _Unasserted, "contentEncoding": _Unasserted},
    )


@cache
def _metaschemas() -> Any:
    """The bundled metaschemas, for documents that refer to one of another dialect than their own."""
    import jsonschema_rs

    bundled: Any = import_module("jsonschema_specifications").REGISTRY
    return jsonschema_rs.Registry([(uri, bundled.contents(uri)) for uri in METASCHEMAS])


_MOST_FOLLOWED: Final = 32
_SHORT: Final = 2_048  # bytes of JSON up to which no document holds data up that does not multiply
_CHARACTERS: Final = 64  # how many bytes cost as much as a value
_AROUND: Final = 3  # what a visit costs beside its own keywords: for its place, its name and its value
_STEP: Final = 10  # how many of the budget's steps one of `jsonschema` takes
_LONGEST: Final = 200


def _fast_fault(error: Any, root: object) -> Fault:
    """What only the fast package found."""
    there: Any = root
    for token in error.instance_path:
        there = there[token]
    message = error.message if len(error.message) <= _LONGEST else f"{error.message[:_LONGEST]}…"
    return Fault(pointer_of(error.instance_path), f"what the schema says ({message})", found_in(there))


@final
class _Slow:
    """What decides about data within the budget, and tells the faults of what is refused; made when it is needed."""

    __slots__ = ("_decider", "_document", "_growth", "_most", "_validator")

    def __init__(self, document: Any) -> None:
        self._document = document
        self._growth = growth_of(document)
        self._validator: Any = None
        self._decider: Decider | None = None
        self._most = 0

    def _ready(self) -> Any:
        if self._validator is None:
            from fxai.schema.keywords import validator_of

            dialect = dialect_of(self._document)
            made = validator_of(dialect.uri, self._document)
            self._decider = decider_of(made.schema, dialect, multiplies=not self._growth.linear)
            heaviest = _STEP if self._decider is None else self._decider.heaviest * _AROUND
            self._most = MAX_STEPS // heaviest
            self._validator = made
        return self._validator

    def is_light(self, value: object) -> bool:
        """Whether a validation takes no more steps than the budget has, at the worst: then any package may decide."""
        size = _size_of(value)
        if self._growth.linear and size <= _SHORT:
            return True
        with_stack(self._ready)
        return self._growth.within(value, self._most - self._growth.visits * (size // _CHARACTERS))

    def faults(self, value: object) -> tuple[Fault, ...]:
        """Every fault of data; none where the document takes it."""
        with_stack(self._ready)
        decider = self._decider
        if decider is None:
            return self._search(value, careful=not self._growth.within(value, self._most))
        try:
            if with_stack(lambda: decider.takes(value)):
                return ()
        except ExhaustedError:
            return (_undecided_fault(value),)
        except RecursionError:
            return too_deep(MAX_LEVELS).faults
        except PatternTimeoutError:
            pass  # where that is, is told
        return self.find_faults(value) or (Fault("", describe(self._document), found_in(value)),)

    def find_faults(self, value: object) -> tuple[Fault, ...]:
        """The faults of data that is known to be refused, as far as the budget goes."""
        with_stack(self._ready)
        return self._search(value, refused=True)

    def _search(self, value: object, *, careful: bool = False, refused: bool = False) -> tuple[Fault, ...]:
        from referencing.exceptions import Unresolvable

        from fxai.schema.search import Search

        validator = self._validator

        def run() -> tuple[Search, tuple[Fault, ...]]:
            search = Search(validator, careful=careful, refused=refused, decider=self._decider)
            return search, faults_of_breaches([_breach(error, validator) for error in search.errors(value)], value)

        try:
            search, faults = with_stack(run)
        except RecursionError:
            return too_deep(MAX_LEVELS).faults
        except Unresolvable as error:  # references into what is no schema lead elsewhere in each package
            return (Fault("", f"references that can be followed ({error})", found_in(value)),)
        if search.undecided:
            return (_undecided_fault(value),)
        if search.unsaid:
            return (Fault("", describe(self._document), found_in(value)),)
        late = () if search.late is None else (Fault("", in_time(search.late), found_in(value)),)
        return (*faults, *late)


def _undecided_fault(value: object) -> Fault:
    return Fault("", f"data that is decided within {MAX_STEPS} steps", found_in(value))


def _size_of(value: object) -> int:
    """How many bytes of JSON data is."""
    try:
        return len(written(value))
    except (TypeError, ValueError, RecursionError):
        return _SHORT + 1


def _breach(error: Any, root: Any) -> Breach:
    path = tuple(cast("list[str | int]", list(error.absolute_path)))
    schema = error.schema if is_object(error.schema) else {}
    branches: list[tuple[Breach, ...]] = []
    if error.validator in ("anyOf", "oneOf"):
        by_branch: dict[Any, list[Breach]] = {}
        for inner in error.context:
            found = by_branch.setdefault(inner.schema_path[0], [])
            if len(found) < MAX_FAULTS:
                found.append(_breach(inner, root))
        branches = [tuple(found) for found in by_branch.values()]
    said = in_time(error.cause.args[0]) if error.validator == "late" else str(error.message)
    names, scope = tuple(getattr(error, "names", ())), getattr(error, "scope", root)
    follow = partial(_follow, scope, schema)
    return Breach(error.validator or "false", schema, path, names, tuple(branches), said, follow)


def _follow(scope: Any, around: Any, schema: Any) -> Any:
    """What a schema inside of another one says where it is a reference: what that names, and what stands beside it."""
    from referencing.exceptions import Unresolvable

    from fxai.schema.keywords import inside, targets_of

    if not is_object(schema) or "$ref" not in schema:
        return schema
    scope = inside(scope, around)
    for _ in range(_MOST_FOLLOWED):
        if not is_object(schema) or "$ref" not in schema:
            break
        beside = {key: said for key, said in schema.items() if key != "$ref"}
        alone = scope.dialect in REF_ALONE
        try:
            schema, scope = next(targets_of(inside(scope, schema), schema))
        except Unresolvable:  # it stands in another resource than the schema around
            break
        if is_object(schema) and beside and not alone:
            schema = {**schema, **beside}
    return schema
