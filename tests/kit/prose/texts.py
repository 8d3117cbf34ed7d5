"""The prose of the project's files: Markdown, docstrings, comments, messages, and help."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, cast

from tests.kit.source import ROOT, parse_source

__all__ = ["WORD", "Kind", "Text", "texts_below", "texts_of", "top_level"]

Kind = Literal["docs", "cell", "heading", "docstring", "summary", "comment", "message", "help"]

WORD = re.compile(r"[A-Za-z][A-Za-z'’\-]*")

_SKIPPED = {"venv", "node_modules", "site", "build", "dist", "__pycache__"}


class Text(NamedTuple):
    """A piece of prose: a paragraph, a cell, a heading, a comment, or a message."""

    path: str
    line: int
    kind: Kind
    text: str
    is_function: bool = False
    """True for the first line of the docstring of a function that is not a property."""


def top_level() -> list[str]:
    """Return the names of the project's files and folders, without hidden and generated folders."""
    return sorted(path.name for path in ROOT.iterdir() if not path.name.startswith(".") and path.name not in _SKIPPED)


def texts_below(paths: Iterable[str]) -> Iterator[tuple[str, list[Text]]]:
    """Yield the name and the prose of each Markdown and Python file below the paths."""
    files: set[Path] = set()
    for path in map(ROOT.joinpath, paths):
        files.update([path] if path.is_file() else path.rglob("*.md"), path.rglob("*.py"))
    for file in sorted(files):
        name = file.relative_to(ROOT)
        if not any(part in _SKIPPED or part.startswith(".") for part in name.parts):
            yield name.as_posix(), list(texts_of(name.as_posix(), file.read_text(encoding="utf-8", errors="replace")))


def texts_of(path: str, source: str) -> Iterator[Text]:
    """Yield the prose of a Markdown or Python file. A Python file with a syntax error has no prose."""
    if not path.endswith(".py"):
        for line, kind, text in _blocks(source, _ITEM):
            yield Text(path, line, kind, text)
        return
    try:
        tree = parse_source(source)
    except SyntaxError:
        return
    nodes = _inner_nodes(tree)
    for node in nodes:
        yield from _docstrings(path, node)
    yield from _messages(path, nodes)
    yield from _comments(path, source)


def _inner_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes that can contain docstrings and messages. `ast.walk` is slower, because it visits each name."""
    nodes = [tree]
    for node in nodes:  # the list grows
        for name in node._fields:
            child: object = getattr(node, name, None)
            children = cast("list[object]", child) if isinstance(child, list) else (child,)
            nodes += [one for one in children if isinstance(one, ast.AST) and not isinstance(one, _LEAF)]
    return nodes


_LEAF = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.alias)
_CODE = re.compile(r"``[^`]+``|`[^`]+`|<https?://[^>]+>|https?://\S+")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])?")
_TAG = re.compile(r"<[^>\n]{1,80}>")
_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)")


def _clean(text: str) -> str:
    """Return the text without its markup. Code becomes the word `CODE`."""
    text = _CODE.sub("CODE", _LINK.sub(r"\1", _CODE.sub("CODE", text)))
    return " ".join(_EMPHASIS.sub("", _TAG.sub(" ", text)).split())


# -- Markdown and docstrings

_CODE_BLOCK = re.compile(
    r"^[ \t]*(```|~~~).*?^[ \t]*\1.*?$|^[ \t]*<!--.*?-->|^[ \t]*>>>.*?(?=^[ \t]*$|\Z)|\A---\n.*?^---$",
    re.MULTILINE | re.DOTALL,
)
_NOT_PROSE = (":::", "!!!", "???", "$ ", "<")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")
_ITEM_OR_NAME = re.compile(rf"\*{{0,2}}[\w.`|\[\] ,*]{{1,40}}(?: \([^)]*\))?: +|{_ITEM.pattern}")
_SECTION = re.compile(r"(?:Args|Returns|Raises|Yields|Fails with|Example|Examples|Note):?|[=\-~]{3,}|\|[|:\-\s]+")


def _blocks(source: str, item: re.Pattern[str], first: int = 1) -> Iterator[tuple[int, Kind, str]]:
    """Yield the paragraphs, headings, and cells with their lines. Skip code, examples, and comments."""
    source = _CODE_BLOCK.sub(lambda block: "\n" * block.group().count("\n"), source)
    paragraph: list[str] = []
    start = first
    for number, line in enumerate([*source.splitlines(), ""], first):
        stripped = line.strip()
        is_mark = not stripped or stripped.startswith(("#", "|", *_NOT_PROSE)) or bool(_SECTION.fullmatch(stripped))
        begins = None if is_mark else item.match(stripped)
        if paragraph and (is_mark or begins):
            yield start, "docs", _clean(" ".join(paragraph))
            paragraph = []
        if stripped.startswith("#"):
            yield number, "heading", _clean(stripped.lstrip("# "))
        elif stripped.startswith("|") and not _SECTION.fullmatch(stripped):
            for cell in re.split(r"(?<!\\)\|", stripped.strip("|")):
                if WORD.search(text := _clean(cell)):
                    yield number, "cell", text
        elif not is_mark:
            start = start if paragraph else number
            is_first = number == first and item is _ITEM_OR_NAME  # a colon in a first line does not follow a name
            paragraph.append(stripped[begins.end() :] if begins and not is_first else stripped.lstrip("> "))


def _docstrings(path: str, node: ast.AST) -> Iterator[Text]:
    """Yield the docstrings of a module, a class, or a function, and of its attributes."""
    body = cast("list[ast.stmt] | None", getattr(node, "body", None))
    if not isinstance(body, list):
        return
    for at, statement in enumerate(body):
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            continue
        source = statement.value.value
        is_own = at == 0 and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        is_of_attribute = at > 0 and type(body[at - 1]).__name__ in {"Assign", "AnnAssign", "TypeAlias"}
        if not isinstance(source, str) or not (is_own or is_of_attribute):
            continue
        is_function = is_own and _is_function(node)
        texts = [one for one in _blocks(source, _ITEM_OR_NAME, statement.lineno) if WORD.search(one[2])]
        for number, (line, _, text) in enumerate(texts):
            yield Text(path, line, "docstring" if number else "summary", text, is_function)


def _is_function(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any("property" in ast.dump(decorator) for decorator in node.decorator_list)


# -- messages and help

_RAISING = re.compile(r"(?:Error|Exception|Warning|Failure|fail|deprecated|problem|refuse|Fault)$")
_HELP = {"help", "epilog", "short_help"}


def _messages(path: str, nodes: list[ast.AST]) -> Iterator[Text]:
    """Yield the strings of raised exceptions, of calls such as `fail(…)`, and of the help of the command line."""
    names: dict[str, ast.AST] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update((target.id, node.value) for target in targets if isinstance(target, ast.Name))
    seen: set[tuple[int, str]] = set()
    for node in nodes:
        for expression, kind in _message_expressions(node):
            for line, text in _strings(expression, names):
                if (line, text) not in seen and len(text.split()) >= 3:
                    seen.add((line, text))
                    yield Text(path, line, kind, _clean(text))


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


def _strings(node: ast.AST, names: dict[str, ast.AST], depth: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the strings of an expression with their lines. `CODE` replaces each value of an f-string."""
    match node:
        case ast.Constant(value=str(text)):
            yield node.lineno, text
        case ast.JoinedStr():
            parts = [str(part.value) if isinstance(part, ast.Constant) else "CODE" for part in node.values]
            yield node.lineno, "".join(parts)
        case ast.Name() if depth < 2 and node.id in names:
            yield from _strings(names[node.id], names, depth + 1)
        case ast.BinOp() | ast.IfExp() | ast.BoolOp() | ast.Tuple() | ast.Starred() | ast.Call() | ast.keyword():
            for child in ast.iter_child_nodes(node):
                if not (isinstance(node, ast.Call) and child is node.func):
                    yield from _strings(child, names, depth)
        case _:
            pass


# -- comments

# A string or a comment. The pattern has strings because a `#` in a string does not start a comment.
_LEXEME = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|(?P<comment>\#[^\n]*)',
    re.DOTALL,
)
_PRAGMA = re.compile(r"(?:type:|pyright:|noqa|pragma|mypy:|ruff:|fmt:|nosec|-\*-)")


def _comments(path: str, source: str) -> Iterator[Text]:
    """Yield the comments. Join comments on consecutive lines in the same column."""
    held: list[str] = []
    start = last = column = -1
    for match in _LEXEME.finditer(source):
        text = (match["comment"] or "").lstrip("#:! ").strip()
        if _PRAGMA.match(text) or not WORD.search(text):
            continue
        line = 1 + source.count("\n", 0, match.start())
        indent = match.start() - source.rfind("\n", 0, match.start())
        if held and (line, indent) != (last + 1, column):
            yield Text(path, start, "comment", _clean(" ".join(held)))
            held = []
        start = start if held else line
        held.append(text.removeprefix("-- "))
        last, column = line, indent
    if held:
        yield Text(path, start, "comment", _clean(" ".join(held)))
