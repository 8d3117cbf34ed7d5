"""JSON Schema documents that can be used, of a draft, with references, recursion and all kinds of keywords.

What is drawn nearly always takes some data: bounds agree, and a schema refers to itself only where data may end.

>>> from hypothesis import find
>>> find(document_of("2020-12", objects=True), lambda document: "required" in document)["type"]
'object'
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, TypeAlias, final

from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import DrawFn, SearchStrategy

from fxai.schema.dialect import DIALECTS, Dialect
from fxai.schema.document import document_faults
from fxai.testing.generation.instance import ANYTHING, SCALARS
from fxai.testing.generation.text import characters

__all__ = ["Draft", "document_of"]

Draft: TypeAlias = Literal["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"]
"""The drafts of JSON Schema that are known."""

_LEVELS: Final = 3
_NAMES: Final = st.sampled_from(
    ["a", "b", "c", "kind", "item_id", "camelCase", "x-y", "$ref", "type", "required", "a/b", "m~n", "ä", ""]
)
_PATTERNS: Final = ["^a", "[0-9]", "^[a-z]+$", "^[A-Z]{2}-[0-9]{1,3}$", r"^\w+(-\w+)*$", "^(x|y)?$", r"\.json$"]
_FORMATS: Final = ["date-time", "date", "time", "email", "uri", "uuid", "ipv4", "ipv6", "hostname", "regex", "made-up"]
_RESTS: Final = ("", "closed", "open", "map", "uneven")
_ATOMS: Final = ("string", "integer", "number", "boolean", "null")


@cache
def document_of(draft: Draft, *, objects: bool) -> SearchStrategy[dict[str, Any]]:
    """Documents of a draft, as `fxai.testing.strategies.json_schemas` says."""
    dialect = next(known for known in DIALECTS.values() if known.name == draft)

    @st.composite
    def documents(draw: DrawFn) -> dict[str, Any]:
        document = Writing(draw, dialect).document(objects=objects)
        if document_faults(document):
            raise UnsatisfiedAssumption("references in a circle")
        return document

    return documents()


@final
class Writing:
    """A document that is being drawn: its dialect, and the definitions that it may refer to."""

    def __init__(self, draw: DrawFn, dialect: Dialect) -> None:
        self.draw = draw
        self.dialect = dialect
        self.place = "$defs" if "$defs" in dialect.keywords else "definitions"
        self.names: list[str] = []
        self.drawn = 0

    def document(self, *, objects: bool) -> dict[str, Any]:
        """A whole document."""
        self.names = [f"D{index}" for index in range(self.draw(st.sampled_from([0, 0, 1, 2])))]
        definitions: dict[str, Any] = {}
        for index, name in enumerate(self.names):
            self.drawn = index
            definitions[name] = self.schema(2)
        self.drawn = len(self.names)
        root = self._object(0) if objects else self.schema(0)
        if self.dialect.ref_alone and "$ref" in root:
            root = {"allOf": [root]}
        if self.dialect.name != "2020-12" or self._now_and_then():
            root = {"$schema": self.dialect.uri, **root}
        return {**root, self.place: definitions} if definitions else root

    def schema(self, level: int, *, loose: bool = False) -> dict[str, Any]:
        """A schema; where data may end without it (`loose`) it may refer to what is around it."""
        forms: list[Callable[[int], dict[str, Any]]] = [self._atom, self._listed]
        if level < _LEVELS:
            forms += [
                self._object,
                self._object,
                self._array,
                self._tuple,
                self._union,
                self._both,
                self._one,
                self._any,
            ]
        if self.drawn or (loose and self.names):
            forms.append(lambda _: self._reference(loose=loose))
        if loose:
            forms.append(lambda _: {"$ref": "#"})
        made = self.draw(st.sampled_from(forms))(level)
        return self._noted(made) if not (self.dialect.ref_alone and "$ref" in made) else made

    # ---- one form each

    def _atom(self, _: int) -> dict[str, Any]:
        name = self.draw(st.sampled_from(_ATOMS))
        schema: dict[str, Any] = {"type": name}
        if name in ("integer", "number"):
            schema |= self._bounds(name)
        elif name == "string":
            schema |= self._text()
        if self._now_and_then():
            schema["type"] = list(dict.fromkeys([name, self.draw(st.sampled_from(_ATOMS))]))
        if self._now_and_then():
            schema["not"] = self.draw(st.sampled_from([{"enum": ["a", 0]}, {"enum": [""]}, {"type": "array"}]))
        return schema

    def _bounds(self, name: str) -> dict[str, Any]:
        low, span = self.draw(st.integers(-100, 100)), self.draw(st.integers(2, 200))
        numbers: dict[str, Any] = {"minimum": low, "maximum": low + span}
        kept = {keyword: bound for keyword, bound in numbers.items() if self.draw(st.booleans())}
        if kept and self._now_and_then():
            bound = next(iter(kept))
            exclusive = f"exclusive{bound.capitalize()}"
            if self.dialect.name == "draft-04":
                kept[exclusive] = True
            else:
                kept[exclusive] = kept.pop(bound)
        if self._now_and_then():
            kept["multipleOf"] = self.draw(st.sampled_from([1, 2] if name == "integer" else [1, 0.5, 0.25]))
        return kept

    def _text(self) -> dict[str, Any]:
        form = self.draw(st.sampled_from(["", "lengths", "pattern", "format", "content"]))
        if form == "lengths":
            least = self.draw(st.integers(0, 4))
            lengths = {"minLength": least, "maxLength": least + self.draw(st.integers(0, 6))}
            return {keyword: length for keyword, length in lengths.items() if self.draw(st.booleans())}
        if form == "pattern":
            return {"pattern": self.draw(st.sampled_from(_PATTERNS))}
        if form == "format":
            return {"format": self.draw(st.sampled_from(_FORMATS))}
        return {"contentEncoding": "base64"} if form == "content" and self._knows("contentEncoding") else {}

    def _listed(self, _: int) -> dict[str, Any]:
        values = self.draw(st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr))
        values = [value for index, value in enumerate(values) if value not in values[:index]]
        if self._knows("const") and self._now_and_then():
            return {"const": self.draw(ANYTHING)}
        if self.draw(st.booleans()):
            return {"enum": values}
        words = self.draw(st.lists(st.text(characters, max_size=5), min_size=1, max_size=3, unique=True))
        return {"type": "string", "enum": words}

    def _any(self, _: int) -> dict[str, Any]:
        return {}

    def _object(self, level: int) -> dict[str, Any]:
        names = self.draw(st.lists(_NAMES, max_size=3, unique=True))
        required = [name for name in names if self.draw(st.booleans())]
        properties = {name: self.schema(level + 1, loose=name not in required) for name in names}
        schema: dict[str, Any] = {"type": "object"}
        named = self.draw(st.booleans())
        if properties or named:
            schema["properties"] = properties
        if required:
            schema["required"] = required
        rest = self.draw(st.sampled_from(_RESTS))
        if rest == "uneven" and self._knows("unevaluatedProperties"):
            schema["unevaluatedProperties"] = False
        elif rest in ("closed", "open"):
            schema["additionalProperties"] = rest == "open"
        elif rest == "map":
            schema["additionalProperties"] = self.schema(level + 1, loose=True)
        return {**schema, **self._rules(names, level)} if self._often() else schema

    def _rules(self, names: list[str], level: int) -> dict[str, Any]:
        """Keywords about a whole object, that agree with its properties."""
        rules: dict[str, Callable[[], Any]] = {
            "patternProperties": lambda: {"^x-": {}, "[0-9]$": self.schema(level + 1, loose=True)},
            "maxProperties": lambda: len(names) + 2,
            "propertyNames": lambda: {"maxLength": 12},
        }
        if len(names) > 1:
            first, second = names[:2]
            rules["dependentRequired"] = lambda: {first: [second]}
            rules["dependentSchemas"] = lambda: {first: {"required": [second]}}
            rules["dependencies"] = lambda: {first: [second], second: {"minProperties": 1}}
            rules["not"] = lambda: {"required": ["never", "both"]}
            rules["anyOf"] = lambda: [{"required": [first]}, {"required": [second]}]
            rules["if"] = lambda: {"required": [first]}
        chosen = [keyword for keyword in rules if self._knows(keyword) and self._often()]
        made = {keyword: rules[keyword]() for keyword in chosen}
        if "if" in made:
            made[self.draw(st.sampled_from(["then", "else"]))] = {"required": [names[1]]}
        return made

    def _array(self, level: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"}
        least = self.draw(st.sampled_from([0, 0, 0, 1, 2]))
        if self.draw(st.integers(0, 4)) > 0:
            schema["items"] = self.schema(level + 1, loose=least == 0)
        if least:
            schema["minItems"] = least
        if self._now_and_then():
            schema["maxItems"] = least + self.draw(st.integers(0, 3))
        if self._now_and_then() and least < 2:
            schema["uniqueItems"] = True
        if self._knows("contains") and "items" not in schema and self._now_and_then():
            schema["contains"] = self._atom(level)
            schema["maxItems"] = 4
        return schema

    def _tuple(self, level: int) -> dict[str, Any]:
        places = [self.schema(level + 1) for _ in range(self.draw(st.integers(1, 3)))]
        latest = self._knows("prefixItems")
        schema: dict[str, Any] = {"type": "array", "prefixItems" if latest else "items": places}
        form = self.draw(st.sampled_from(["", "closed", "exact", "more"]))
        if form in ("closed", "exact"):
            schema["items" if latest else "additionalItems"] = False
        if form == "exact":
            schema |= {"minItems": len(places), "maxItems": len(places)}
        elif form == "more":
            schema["items" if latest else "additionalItems"] = self._atom(level)
        return schema

    def _union(self, level: int) -> dict[str, Any]:
        arms = [self.schema(level + 1) for _ in range(self.draw(st.integers(1, 3)))]
        return {"anyOf": arms}

    def _one(self, level: int) -> dict[str, Any]:
        """Alternatives of which no two take the same: by kind, or by the value of one property."""
        if self.draw(st.booleans()):
            kinds = self.draw(
                st.lists(st.sampled_from(["string", "integer", "null", "boolean"]), min_size=1, unique=True)
            )
            return {"oneOf": [{"type": kind} for kind in kinds]}
        arms: list[dict[str, Any]] = []
        for tag in ("a", "b"):
            arm = self._object(level + 1)
            arm["properties"] = {
                "kind": {"enum": [tag]},
                **{k: v for k, v in arm.get("properties", {}).items() if k != "kind"},
            }
            arm["required"] = list(dict.fromkeys(["kind", *arm.get("required", [])]))
            arms.append(arm)
        return {"oneOf": arms}

    def _both(self, level: int) -> dict[str, Any]:
        first = self.schema(level + 1)
        second = self.draw(
            st.sampled_from([{}, {"minLength": 1}, {"minimum": -50}, {"title": "Both"}, {"maxItems": 5}])
        )
        return {"allOf": [first, second] if second or self.draw(st.booleans()) else [first]}

    def _reference(self, *, loose: bool) -> dict[str, Any]:
        known = self.names if loose else self.names[: self.drawn]
        return {"$ref": f"#/{self.place}/{self.draw(st.sampled_from(known))}"}

    # ---- choices

    def _noted(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with what it says of itself."""
        if not self._now_and_then():
            return schema
        note = self.draw(st.sampled_from(["title", "description", "default", "examples", "readOnly", "deprecated"]))
        if not self._knows(note):
            return schema
        said: Any = "Said of it." if note in ("title", "description") else note in ("readOnly", "deprecated")
        if note in ("default", "examples"):
            said = self.draw(SCALARS) if note == "default" else [self.draw(SCALARS)]
        return {note: said, **schema}

    def _knows(self, keyword: str) -> bool:
        if keyword == "dependencies":
            return "dependentRequired" not in self.dialect.keywords
        if keyword in ("const", "default"):  # any value will do for them, so the table of shapes has them not
            return keyword == "default" or self.dialect.name != "draft-04"
        return keyword in self.dialect.keywords

    def _often(self) -> bool:
        return self.draw(st.integers(0, 2)) == 2

    def _now_and_then(self) -> bool:
        return self.draw(st.integers(0, 4)) == 4
