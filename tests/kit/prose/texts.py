"""The prose of the project's files: Markdown, docstrings, comments, messages, and help."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, cast

from tests.kit.prose.words import WORD
from tests.kit.source import parse_source

__all__ = ["Kind", "Text", "texts_of"]

Kind = Literal["docs", "cell", "heading", "docstring", "summary", "comment", "message", "help"]


class Text(NamedTuple):
    """A piece of prose: a paragraph, a cell, a heading, a comment, or a message."""

    path: str
    line: int
    kind: Kind
    text: str
    is_function: bool = False
    """True for the first line of the docstring of a function that is not a property."""


_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])?")
_CODE = re.compile(r"``[^`]+``|`[^`]+`")
_ROLE = re.compile(r":[\w:.+-]+:(?=`)")
_ADDRESS = re.compile(r"<https?://[^>]+>|https?://\S+")
_WITH_MESSAGE = (ast.Raise, ast.Call, ast.Assign, ast.AnnAssign)
_LEAF = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.alias)
_TAG = re.compile(r"<[^>\n]{1,80}>")
_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)")


def texts_of(path: str, source: str) -> Iterator[Text]:
    """Yield the prose of a Markdown or Python file. A Python file with a syntax error has no prose."""
    if not path.endswith(".py"):
        yield from _Page(path).read(source)
        return
    try:
        tree = parse_source(source)
    except SyntaxError:
        return
    nodes = [node for node in _inner_nodes(tree) if _may_have_prose(node)]
    for docstring, is_function in _docstrings(nodes):
        yield from _Docstring(path, docstring.lineno, is_function=is_function).read(str(docstring.value))
    yield from _messages(path, nodes)
    yield from _comments(path, source)


def _inner_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes that have children, in the order of `ast.walk`, which is slower."""
    nodes = [tree]
    for node in nodes:  # the list grows
        for name in node._fields:
            child: object = getattr(node, name, None)
            children = cast("list[object]", child) if isinstance(child, list) else (child,)
            nodes += [one for one in children if isinstance(one, ast.AST) and not isinstance(one, _LEAF)]
    return nodes


def _may_have_prose(node: ast.AST) -> bool:
    """Return True for the few kinds of nodes that the readers of docstrings and messages look at."""
    return isinstance(node, _WITH_MESSAGE) or "body" in node._fields


def _clean(text: str) -> str:
    """Return the text without its markup. Code becomes the word `CODE`."""
    text = _CODE.sub("CODE", _ROLE.sub("", text))
    text = _ADDRESS.sub("CODE", _LINK.sub(r"\1", text))
    text = _EMPHASIS.sub("", _TAG.sub(" ", text))
    return " ".join(text.split())


# -- Markdown


class _Page:
    """A reader of Markdown."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.paragraph: list[str] = []
        self.start = 0
        self.end_of_block = ""
        """The text that ends the current block without prose: code, a comment, or the front matter."""

    def read(self, source: str) -> Iterator[Text]:
        """Yield the paragraphs, the headings, and the cells of tables."""
        for number, line in enumerate(source.splitlines(), 1):
            if not self._skips(number, line):
                yield from self._line(number, line)
        yield from self._flush()

    def _skips(self, number: int, line: str) -> bool:
        stripped = line.strip()
        if self.end_of_block == "---":
            is_last = stripped == "---"
        elif self.end_of_block == "-->":
            is_last = "-->" in line
        elif self.end_of_block:
            is_last = stripped.startswith(self.end_of_block)
        elif number == 1 and stripped == "---":
            self.end_of_block, is_last = "---", False
        else:
            return False
        if is_last:
            self.end_of_block = ""
        return True

    def _line(self, number: int, line: str) -> Iterator[Text]:
        stripped = line.strip()
        if fence := _FENCE.match(line):
            yield from self._flush()
            self.end_of_block = fence.group(1)[:3]
        elif stripped.startswith("<!--"):
            self.end_of_block = "" if "-->" in line else "-->"
        elif line.startswith("    ") and not self.paragraph and _is_code(line):
            return
        elif stripped.startswith("#"):
            yield from self._flush()
            yield Text(self.path, number, "heading", _clean(stripped.lstrip("# ")))
        elif stripped.startswith("|"):
            yield from self._flush()
            yield from self._cells(number, stripped)
        elif not stripped or stripped.startswith((":::", "!!!", "???", ">>>", "$ ", "<")):
            yield from self._flush()
        else:
            yield from self._prose(number, stripped)

    def _prose(self, number: int, stripped: str) -> Iterator[Text]:
        if item := _ITEM.match(stripped):
            yield from self._flush()
            stripped = stripped[item.end() :]
        if not self.paragraph:
            self.start = number
        self.paragraph.append(stripped.lstrip("> ").removesuffix("::"))

    def _cells(self, number: int, row: str) -> Iterator[Text]:
        if re.fullmatch(r"[|:\-\s]+", row):
            return
        for cell in re.split(r"(?<!\\)\|", row.strip("|")):
            if WORD.search(text := _clean(cell)):
                yield Text(self.path, number, "cell", text)

    def _flush(self) -> Iterator[Text]:
        if self.paragraph:
            yield Text(self.path, self.start, "docs", _clean(" ".join(self.paragraph)))
        self.paragraph = []


def _is_code(line: str) -> bool:
    stripped = line.strip()
    is_item = re.match(r"[-*+]|\d+\.", stripped)
    return not is_item and bool(re.match(r">>>|\$|import |from |def |class |@", stripped))


# -- docstrings

_SECTION = re.compile(
    r"(?:Args|Arguments|Returns|Raises|Yields|Attributes|Example|Examples|Note|Parameters):?|[=\-~]{3,}"
)
_NAMED = re.compile(
    r"(?:\*{0,2}[\w.`|\[\] ,*]{1,40}(?: \([^)]*\))?: +|:(?:param|type|raises?|returns?|rtype|var)\b[^:]*: *)"
)
_PROSE_DIRECTIVE = re.compile(r"\.\. (?:note|warning|tip|seealso|versionadded|versionchanged)")
_WITH_DOCSTRING = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _docstrings(nodes: list[ast.AST]) -> Iterator[tuple[ast.Constant, bool]]:
    """Yield the docstrings of modules, classes, functions, and attributes. True marks a function."""
    for node in nodes:
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        statements = cast("list[ast.stmt]", body)
        for at, statement in enumerate(statements):
            if (value := _string_statement(statement)) is None:
                continue
            if at == 0 and isinstance(node, _WITH_DOCSTRING):
                yield value, _is_function(node)
            elif at > 0 and _is_assignment(statements[at - 1]):
                yield value, False


def _string_statement(statement: object) -> ast.Constant | None:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _is_assignment(statement: object) -> bool:
    return isinstance(statement, ast.Assign | ast.AnnAssign) or type(statement).__name__ == "TypeAlias"


def _is_function(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any("property" in ast.dump(decorator) for decorator in node.decorator_list)


class _Docstring:
    """A reader of a docstring."""

    def __init__(self, path: str, line: int, *, is_function: bool) -> None:
        self.path = path
        self.line = line
        self.is_function = is_function
        self.paragraph: list[str] = []
        self.start = line
        self.is_first = True
        self.fence = ""
        self.is_example = False
        self.indent_of_literal: int | None = None

    def read(self, source: str) -> Iterator[Text]:
        """Yield the first line, and each paragraph that is not code."""
        for at, line in enumerate(source.splitlines()):
            if not self._skips(line):
                yield from self._line(at, line)
        yield from self._flush()

    def _skips(self, line: str) -> bool:
        stripped = line.strip()
        if self.fence:
            if stripped.startswith(self.fence):
                self.fence = ""
            return True
        if self.indent_of_literal is not None:
            if not stripped or _indent(line) > self.indent_of_literal:
                return True
            self.indent_of_literal = None
        if self.is_example:
            self.is_example = bool(stripped)
        return self.is_example

    def _line(self, at: int, line: str) -> Iterator[Text]:
        stripped = line.strip()
        if fence := _FENCE.match(line):
            yield from self._flush()
            self.fence = fence.group(1)[:3]
        elif stripped.startswith((">>>", "...")):
            yield from self._flush()
            self.is_example = True
        elif not stripped or _SECTION.fullmatch(stripped):
            yield from self._flush()
        else:
            yield from self._prose(at, line)

    def _prose(self, at: int, line: str) -> Iterator[Text]:
        stripped = line.strip()
        if match := _NAMED.match(stripped):
            yield from self._flush()
            stripped = stripped[match.end() :] if at else stripped
        elif match := _ITEM.match(stripped):
            yield from self._flush()
            stripped = stripped[match.end() :]
        if stripped.startswith((".. ", "|", "::")):
            yield from self._flush()
            if stripped.startswith(".. ") and not _PROSE_DIRECTIVE.match(stripped):
                self.indent_of_literal = _indent(line)
            return
        if not self.paragraph:
            self.start = self.line + at
        self.paragraph.append(stripped.removesuffix("::"))
        if stripped.endswith("::"):
            yield from self._flush()
            self.indent_of_literal = _indent(line)

    def _flush(self) -> Iterator[Text]:
        if not self.paragraph:
            return
        text = _clean(" ".join(self.paragraph))
        if WORD.search(text):
            yield Text(self.path, self.start, "summary" if self.is_first else "docstring", text, self.is_function)
        self.is_first = False
        self.paragraph = []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# -- messages and help

_RAISING = re.compile(r"(?:Error|Exception|Warning|Failure|fail|deprecated|problem|refuse|Fault)$")
_HELP = {"help", "epilog", "short_help"}

_Names = dict[str, ast.AST]


def _messages(path: str, nodes: list[ast.AST]) -> Iterator[Text]:
    """Yield the strings of raised exceptions, of calls such as `fail(…)`, and of the command line's help."""
    names = _assigned(nodes)
    seen: set[tuple[int, str]] = set()
    for node in nodes:
        for expression, kind in _message_expressions(node):
            for line, text in _strings(expression, names):
                if (line, text) not in seen and len(text.split()) >= 3:
                    seen.add((line, text))
                    yield Text(path, line, kind, _clean(text))


def _assigned(nodes: list[ast.AST]) -> _Names:
    names: _Names = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    names[target.id] = node.value
    return names


def _message_expressions(node: ast.AST) -> Iterator[tuple[ast.AST, Kind]]:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield node.exc, "message"
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if _RAISING.search(name):
            yield node, "message"
        for word in node.keywords:
            if word.arg in _HELP or (word.arg == "description" and "arser" in name):
                yield word.value, "help"


def _strings(node: ast.AST, names: _Names, depth: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the strings of an expression with their lines. `CODE` replaces each value of an f-string."""
    match node:
        case ast.Constant(value=str(text)):
            yield node.lineno, text
        case ast.JoinedStr():
            parts = [str(part.value) if isinstance(part, ast.Constant) else "CODE" for part in node.values]
            yield node.lineno, "".join(parts)
        case ast.Name() if depth < 2 and node.id in names:
            yield from _strings(names[node.id], names, depth + 1)
        case ast.BinOp() | ast.IfExp() | ast.BoolOp() | ast.Tuple() | ast.Starred():
            for child in ast.iter_child_nodes(node):
                yield from _strings(child, names, depth)
        case ast.Call():
            for child in [*node.args, *[word.value for word in node.keywords]]:
                yield from _strings(child, names, depth)
        case _:
            pass


# -- comments

# A string or a comment. The pattern has strings because a `#` in a string does not start a comment.
_LEXEME = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\])*"'
    r"|'(?:\\.|[^'\\])*'"
    r"|(?P<comment>\#[^\n]*)",
    re.DOTALL,
)
_PRAGMA = re.compile(r"(?:type:|pyright:|noqa|pragma|mypy:|ruff:|fmt:|nosec|-\*-)")
_RULE = re.compile(r"^-+ ")


def _comments(path: str, source: str) -> Iterator[Text]:
    """Yield the comments. Join comments on consecutive lines in the same column."""
    held: list[str] = []
    start = last = column = -1
    for line, location, text in _comment_lines(source):
        if held and line == last + 1 and location == column:
            held.append(text)
        else:
            if held:
                yield Text(path, start, "comment", _clean(" ".join(held)))
            held, start, column = [text], line, location
        last = line
    if held:
        yield Text(path, start, "comment", _clean(" ".join(held)))


def _comment_lines(source: str) -> Iterator[tuple[int, int, str]]:
    line, counted = 1, 0
    for match in _LEXEME.finditer(source):
        if match["comment"] is None:
            continue
        text = match["comment"].lstrip("#:! ").strip()
        if _PRAGMA.match(text) or not WORD.search(text):
            continue
        line += source.count("\n", counted, match.start())
        counted = match.start()
        yield line, counted - source.rfind("\n", 0, counted) - 1, _RULE.sub("", text)
