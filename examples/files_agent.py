"""Read the files of the current folder with an agent that refuses files with secrets.

The agent has one typed tool and two dynamic tools, which an MCP server listed. The handlers use the service `Folder`,
and the layer provides the current folder. `Folder` refuses files that `is_secret_name` or `has_secret` finds. Run
`fxai run --agent examples/files_agent.py:agent --layer examples/files_agent.py:layer "Read LICENSE"`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, final

import msgspec
from typing_extensions import TypeVar

from fxai.agents import Agent, Budget
from fxai.effects import Effect, Gen, Layer, Service, fx, thread
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Example, Tool, Toolkit
from fxai.tools.annotation import Destructive, OpenWorld, Readonly

_MOST_NAMES: Final = 40
_MOST_CHARACTERS: Final = 800
_PIECE: Final = 2**15
"""The number of characters per search. During a search, no other thread can run."""

_OPEN: Final = re.compile(
    r"\.{1,2}|\.(?:git(?:ignore|attributes|modules|keep|lab-ci\.yml|-blame-ignore-revs)|github|gitlab|vscode|editorconfig"
    r"|dockerignore|npmignore|nvmrc|node-version|python-version|ruby-version|tool-versions|mailmap|coveragerc|flake8"
    r"|pylintrc|clang-(?:format|tidy)|prettier.*|eslint.*|stylelint.*|babelrc.*|browserslistrc|pre-commit-config\.ya?ml"
    r"|readthedocs\.ya?ml|travis\.yml|circleci|rspec|rubocop.*|markdownlint.*|yamllint.*|hgignore|rustfmt\.toml"
    r"|cargo|storybook|husky|changeset|devcontainer|env\.(?:example|sample|template|dist))"
)
"""Hidden names of files that people publish. `is_secret_name` treats every other hidden name as secret."""
_DATA: Final = r"(?:\.(?:txt|csv|json|ya?ml|toml|ini|xml|conf|db|bak))?"
_CLOSED: Final = re.compile(
    r"_netrc|.*\.(?:env|pem|key|p8|p12|pfx|jks|keystore|kdbx?|ppk|gpg|agekey|ovpn|tfstate(?:\.backup)?|tfvars(?:\.json)?)"
    r"|env\.(?:local|prod(?:uction)?|dev(?:elopment)?|staging|test)|ssh_host_\w+_key|wallet\.dat|pgpass\.conf"
    r"|cookies(?:\.(?:txt|sqlite))?|logins\.json|key4\.db|login\.keychain(?:-db)?|.*-adminsdk-?.*\.json"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?:[._-].*)?(?<!\.pub)|.*_(?:rsa|ed25519)|master\.key|environ|shadow"
    rf"|(?:\w+[._-])?credentials?{_DATA}|(?:(?:client|app|my)[_-]?)?secrets?(?:[._-].*(?=\.[a-z]))?{_DATA}"
    rf"|service[_-]?account.*\.json|.*api[_-]?keys?{_DATA}|token(?:\.(?:txt|json|pickle))?|(?:access|auth|api)_tokens?{_DATA}"
    r"|auth\.json|rclone\.conf|sitemanager\.xml|recentservers\.xml"
    rf"|private[_-]?keys?{_DATA}|vault[_-]?pass(?:word)?{_DATA}|passwords?{_DATA}|wp-config\.php|htpasswd|kubeconfig{_DATA}"
)
_BACKUP: Final = re.compile(r"^#|(?:\.(?:bak|old|orig|save|swp|tmp|copy|\d))*[~#]*$")
_KEY: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY|PuTTY-User-Key-File-\d|AGE-SECRET-KEY-1[0-9A-Z]{20}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30}|\bgithub_pat_\w{22}|\bglpat-[\w-]{20}"
    r"|\bsk-[A-Za-z0-9][\w-]{19}|\bxox[abeoprs]-[\w-]{10}|\bxapp-\d-\w{8}|\bAIza[\w-]{35}|\bya29\.[\w-]{20}"
    r"|\b[sr]k_(?:live|test)_\w{16}|\bwhsec_\w{20}|\bnpm_[A-Za-z0-9]{36}|\bpypi-AgE\w{20}|\bhf_[A-Za-z0-9]{30}"
    r"|\bSG\.[\w-]{16,64}\.[\w-]{16}|\beyJ[\w-]{10,2000}\.eyJ[\w-]{10,2000}\.[\w-]{10}|\bdop_v1_[0-9a-f]{32}"
    r"|\bdckr_pat_[\w-]{20}|\bglsa_\w{20}|\blin_api_\w{20}|\bshpat_[0-9a-f]{20}|\bAccountKey=[\w+/]{40}"
    r"|\bhooks\.slack\.com/services/T\w{8,12}/B\w{8,12}/\w{20}|\bdiscord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{20}"
    r"|\b\d{8,10}:AA[\w-]{33}|\bSK[0-9a-f]{32}\b|:\$(?:1|2[aby]|5|6|y|apr1|argon2id?)\$[\w./$,=+]{8}"
    r"|\b(?i:authorization)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?i:basic)[ \t]{1,4}[A-Za-z0-9+/]{12}"
    r"|\bmachine\s{1,8}\S{1,200}\s{1,8}login\s{1,8}\S{1,200}\s{1,8}password\s{1,8}\S",
    re.ASCII,
)
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"<>]{0,64}:([^\s/@'\"<>]{3,128})@", re.IGNORECASE)
_ASSIGNED: Final = re.compile(
    r"(passw(?:or)?d|passphrase|pwd|(?-i:[A-Z]_PASS)|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key"
    r"|auth[_-]?key|encryption[_-]?key|credential|_auth|authorization|cookie|dsn)"
    r"[\w.-]{0,20}[\"']?[ \t]{0,4}(?:[=:]|:=|=>)[ \t]{0,4}(?:bearer |basic )?"
    r"(?:[bru]{0,2}\"{1,3}([^\"\n]{4,500})\"|[bru]{0,2}'{1,3}([^'\n]{4,500})'"
    r"|([^\s\"',;(){}\[\]<>]{4,500})[ \t]{0,8}$)",
    re.IGNORECASE | re.MULTILINE,
)
_PHRASE: Final = re.compile(
    r"(?:passw(?:or)?d|passphrase|pwd|(?-i:[A-Z]_PASS)|secret|api[_-]?key|access[_-]?key)"
    r"[\"']?[ \t]{0,4}(=|:|:=|=>)[ \t]{0,4}(?:[bru]{0,2}\"{1,3}([^\"\n]{4,200})\"|[bru]{0,2}'{1,3}([^'\n]{4,200})'"
    r"|([^\s\"'(){}\[\]<>|,=][^\"'\n(){}\[\]<>|,=]{3,200})$)",
    re.IGNORECASE | re.MULTILINE,
)
"""Secrets of several words. The name must end after the keyword, so that `password_hint` does not match."""
_PROSE: Final = re.compile(
    r"[.:?!…]$|\b(?:a|an|and|any|are|as|at|be|by|can|cannot|change|confirm|do|does|enter|field|for|forgot|forgotten|from|get"
    r"|hash(?:ed)?|if|in|incorrect|input|invalid|is|it|least|missing|must|new|no|not|of|old|on|or|passwords?|please|repeat"
    r"|required|reset|secrets?|set|should|text|that|the|this|to|type|update|use|used|user|value|was|when|which|will|with"
    r"|without|wrong|you|your)\b",
    re.IGNORECASE,
)
"""Parts of sentences and labels. They are rare in secrets of several words."""
_SEED: Final = re.compile(
    r"(?:mnemonic|\bseed|recovery)[\w -]{0,20}[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:[a-z]{3,8} ){11,23}[a-z]{3,8}\b",
    re.IGNORECASE,
)
"""The words from which a wallet is created."""
_JOINED: Final = re.compile(
    r"\b(?:password|passwd|pwd|accesskey|sharedaccesskey)=([^\s;\"'(){}\[\]<>]{6,200});"
    r"|<\w{0,40}(?:password|passphrase|secret|token|api_?key)\w{0,20}>\s{0,8}([^\s<>]{6,200})\s{0,8}</"
    r"|(?<![\w-])--?(?:\w{1,20}-)?(?:password|passwd|passphrase|secret|token|api[_-]?key)[= ]"
    r"[\"']?([^\s\"'`(){}\[\]<>|$]{6,200})"
    r"|\bcurl [^\n]{0,200}?(?:-u|--user)[= ]?[\"']?[\w.@-]{1,64}:([^\s\"'`(){}\[\]<>|$]{6,200})",
    re.IGNORECASE,
)
"""Secrets in the middle of a line: connection strings, XML, and command-line options."""
_STANDS_IN: Final = re.compile(
    r"[$%{<*].*|.*(?:\.\.\.|…).*|x{3,}.*|(?:your|my|the|some|an?)[ _-].*|change.?(?:me|it|this)"
    r"|(?:example|dummy|fake|placeholder|redacted).*|pass(?:word|wd)?|secret|token|none|null|true|false|todo|string"
    r"|\(?hidden\)?",
    re.IGNORECASE,
)
"""Placeholders for secrets."""


_CODE: Final = re.compile(r"(?:\w*\.)+[A-Za-z_]\w*")


def is_secret_name(name: str) -> bool:
    """Return True if a file or directory with this name probably contains secrets, in any spelling of the name."""
    plain = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    plain = plain.casefold().partition(":")[0].strip()
    plain = _BACKUP.sub("", plain.rstrip(". ") or plain)
    if plain.startswith("."):
        return _OPEN.fullmatch(plain) is None
    return _CLOSED.fullmatch(plain) is not None


def has_secret(text: str) -> bool:
    """Return True if a text probably contains a key, a token, or a password."""
    pieces = (text[start : start + _PIECE + 2**12] for start in range(0, max(1, len(text)), _PIECE))
    return any(map(_shows_secret, pieces))


def _shows_secret(text: str) -> bool:
    if _KEY.search(text) or _SEED.search(text):
        return True
    values = [found[1] for found in _ADDRESS.finditer(text)]
    values += [
        value
        for found in _JOINED.finditer(text)
        if _is_mixed(value := next(filter(None, found.groups()))) and not _CODE.fullmatch(value)
    ]
    values += [value for found in _PHRASE.finditer(text) if (value := _phrase(found)) is not None]
    values += [value for found in _ASSIGNED.finditer(text) if (value := _value(found)) is not None]
    return any(_STANDS_IN.fullmatch(value) is None for value in values)


def _is_mixed(value: str) -> bool:
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _phrase(found: re.Match[str]) -> str | None:
    """Return the assigned value if it has several words that can be a secret, and is not a sentence or a label."""
    value: str = next(filter(None, found.groups()[1:])).strip()
    words = value.split()
    of_password = found[0][:1] in "pP" or found[0][1:6] == "_PASS"
    least = 3 if found[4] is not None else 2
    if not least <= len(words) <= 12 or not (of_password or _is_mixed(value)):
        return None
    if found[1] == "=" and re.match(r"[A-Z_]+=[\"']", found[0]):  # KEY="value", the form of settings files
        return value
    if _PROSE.search(value):
        return None
    is_label = found[1] == ":" and value[0].isupper() and not _is_mixed(value)
    return None if is_label else value


def _value(found: re.Match[str]) -> str | None:
    """Return the assigned value if it can be a secret, and is not a name, a type, or a sentence."""
    value = next(text for text in found.groups()[1:] if text is not None).strip()
    if any(c.isspace() for c in value) or (found[4] is not None and _CODE.fullmatch(value)):
        return None
    enough = 6 if found[1].lower().startswith("pass") else 8
    bare = found[4] is not None and not re.search(r"\s[=:]|[=:]\s", found[0])
    in_capitals = bare and found[1].isupper()  # KEY=value, the form of settings files
    return value if in_capitals or (_is_mixed(value) and len(value) >= enough) else None


_A = TypeVar("_A")

_LARGEST: Final = 2 * 1024 * 1024


@final
class _RefusedError(Exception):
    """Carries the reason why a path cannot be read out of a worker thread."""


class Folder(Service):
    """A folder of this computer. Its methods refuse paths outside the folder, also if a link leads there.

    A failure is a line of text with the reason and the path, because small models read lines best.
    """

    def __init__(self, root: Path, *, secrets: bool) -> None:
        """Use the folder `root`. With `secrets`, also read files that can contain secrets."""
        self._root = root.resolve()
        self._secrets = secrets

    def names(self, path: str) -> Effect[tuple[str, ...], str]:
        """Return the names in the folder `path`, sorted, without hidden names. A slash ends the name of a folder."""
        return _in_thread(path, lambda: _names(self._inside(path)))

    def text(self, path: str) -> Effect[str, str]:
        """Return the text of the file `path`: UTF-8, at most 2 MB, and no file that can contain secrets."""
        return _in_thread(path, lambda: self.read(path))

    def _inside(self, path: str) -> Path:
        try:
            found = (self._root / path).resolve()
        except (OSError, ValueError, RuntimeError):  # an impossible name, or links in a circle
            raise _RefusedError("no such file") from None
        if not found.is_relative_to(self._root):
            raise _RefusedError("outside of this folder")
        return found

    def read(self, path: str) -> str:
        """Return the text of a file, or raise `_RefusedError`."""
        found = self._inside(path)
        asked = Path(os.path.normpath(self._root / path))
        parts = asked.relative_to(self._root).parts if asked.is_relative_to(self._root) else (asked.name,)
        named = any(map(is_secret_name, (*parts, *found.relative_to(self._root).parts)))
        if not self._secrets and named:
            raise _RefusedError("may hold secrets")
        text = _text(found)
        if not self._secrets and has_secret(text):
            raise _RefusedError("may hold secrets")
        return text


def _in_thread(path: str, f: Callable[[], _A]) -> Effect[_A, str]:
    def failure(raised: Exception) -> str | None:
        return f"{raised}: {path}" if isinstance(raised, _RefusedError) else None

    return fx.attempt_async(lambda: thread.in_thread(f), failure)


def folder(root: str | Path, *, secrets: bool = False) -> Layer[Folder]:
    """Return the layer of a folder of this computer. With `secrets`, it also reads files that can contain secrets."""
    return Layer.sync(Folder, lambda: Folder(Path(root), secrets=secrets))


def _names(folder: Path) -> tuple[str, ...]:
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
        names = [entry.name + ("/" if os.path.isdir(entry) else "") for entry in shown]  # noqa: PTH112  # False for any name
    except NotADirectoryError:
        raise _RefusedError("no folder") from None
    except OSError as error:
        raise _RefusedError(_problem_of(error)) from None
    return tuple(sorted(names))


def _text(file: Path) -> str:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # some devices act when a program opens them
            raise _RefusedError("no file")
        with os.fdopen(os.open(file, flags), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise _RefusedError("no file")
            data = opened.read(_LARGEST + 1)
    except OSError as error:
        raise _RefusedError(_problem_of(error)) from None
    if len(data) > _LARGEST:
        raise _RefusedError("larger than 2 MB")
    try:
        if b"\0" not in data:
            return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise _RefusedError("no text file")


def _problem_of(error: OSError) -> str:
    if isinstance(error, IsADirectoryError):
        return "no file"
    is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    return "no such file" if is_missing or error.errno in (errno.ENAMETOOLONG, errno.ELOOP) else "not readable"


# ---- a tool with Python types for its parameters, its result, and its failure


@final
class SampleFile(msgspec.Struct, frozen=True):
    """A file with its path."""

    path: str


@final
class Counted(msgspec.Struct, frozen=True):
    """The length of a text file."""

    path: str
    lines: int
    words: int


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


count_lines: Final = Tool.make(
    "count_lines",
    description="Counts the lines and words of a text file.",
    parameters=SampleFile,
    success=Counted,
    failure=str,
    failure_mode="return",  # the model reads the failure, and the run continues
    to_model_output=lambda at: f"{at.path} has {_count(at.lines, 'line')} and {_count(at.words, 'word')}.",
    input_examples=[
        Example("How many lines are in main.py?", {"path": "main.py"}),
        Example("Count the words of data.csv", {"path": "data.csv"}),
        Example("How many words does index.html have?", {"path": "index.html"}),
        Example("Please count the lines of app.js", {"path": "app.js"}),
        Example("words of intro.md?", {"path": "intro.md"}),
        Example("Tell me how many lines COPYING has", {"path": "COPYING"}),
    ],
)


def on_count(file: SampleFile) -> Gen[Counted, str, Folder]:
    """Count the lines and words of a file in the folder."""
    here = yield from Folder
    text = yield from here.text(file.path)
    return Counted(file.path, len(text.splitlines()), len(text.split()))


# ---- tools with the unchanged JSON Schemas of a server, and handlers in Python


_SERVERS: Final = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))["servers"]
_LISTED: Final[dict[str, dict[str, Any]]] = {tool["name"]: tool for server in _SERVERS for tool in server["tools"]}


@final
class Names(msgspec.Struct, frozen=True):
    """The names in a directory."""

    path: str
    names: tuple[str, ...]


def _names_text(found: Names) -> str:
    here = found.path in ("", ".", "./")
    if not found.names:
        return "This folder is empty." if here else f"{found.path} is empty."
    more = len(found.names) - _MOST_NAMES
    names = ", ".join(found.names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"This folder contains {names}." if here else f"{found.path} contains {names}."


list_directory: Final = Tool.dynamic(
    "list_directory",
    description=_LISTED["list_directory"]["description"],
    parameters=_LISTED["list_directory"]["inputSchema"],
    success=Names,
    failure=str,
    failure_mode="return",
    to_model_output=_names_text,
    input_examples=[
        Example("Which files are here?", {"path": "."}),
        Example("List this directory", {"path": "."}),
        Example("What is in this folder?", {"path": "."}),
        Example("What's in the current directory?", {"path": "."}),
        Example("Show me all files", {"path": "."}),
        Example("List the folder img", {"path": "img"}),
        Example("What is in the folder lib?", {"path": "lib"}),
        Example("Which files are in app?", {"path": "app"}),
    ],
)


def on_list(params: object) -> Gen[Names, str, Folder]:
    """List a directory of the folder. The server's schema has validated the parameters, which are JSON values."""
    path = msgspec.convert(params, SampleFile).path
    here = yield from Folder
    return Names(path, (yield from here.names(path)))


@final
class FileText(msgspec.Struct, frozen=True):
    """The text of a file, or the requested part of it."""

    path: str
    text: str


def _file_text(read: FileText) -> str:
    text = read.text[:_MOST_CHARACTERS].strip()
    cut = f" … (the first {_MOST_CHARACTERS:,} of {len(read.text):,} characters)"
    return f"{read.path} says: {text}" + (cut if len(read.text) > _MOST_CHARACTERS else "")


read_text_file: Final = Tool.dynamic(
    "read_text_file",
    description=_LISTED["read_text_file"]["description"],
    parameters=_LISTED["read_text_file"]["inputSchema"],
    success=FileText,
    failure=str,
    failure_mode="return",
    to_model_output=_file_text,
    input_examples=[
        Example("Show me the file setup.cfg", {"path": "setup.cfg"}),
        Example("What does todo.txt say?", {"path": "todo.txt"}),
        Example("Read letter.md", {"path": "letter.md"}),
        Example("Can you open plan.txt please?", {"path": "plan.txt"}),
        Example("cat main.c", {"path": "main.c"}),
        Example("Show the contents of COPYING", {"path": "COPYING"}),
    ],
)


@final
class _FileReading(msgspec.Struct, frozen=True):
    path: str
    head: float = 1e9
    tail: float = 1e9


def on_read(params: object) -> Gen[FileText, str, Folder]:
    """Read a file of the folder, or its first or last lines."""
    wanted = msgspec.convert(params, _FileReading)
    here = yield from Folder
    lines = (yield from here.text(wanted.path)).splitlines(keepends=True)
    lines = lines[: int(min(max(0, wanted.head), 1e9))]
    lines = lines[max(0, len(lines) - int(min(max(0, wanted.tail), 1e9))) :]
    return FileText(wanted.path, "".join(lines))


# ---- the tools with their handlers for the current folder


kit: Final = Toolkit.make(count_lines, list_directory, read_text_file).annotate_all(
    {Readonly: True, Destructive: False, OpenWorld: False}
)
handlers: Final = kit.to_layer(
    count_lines.handler(on_count) | list_directory.handler(on_list) | read_text_file.handler(on_read)
)
layer: Final = handlers.provide(folder("."))
open_layer: Final = handlers.provide(folder(".", secrets=True))
"""The layer of the handlers that also reads files with secrets."""


agent: Final = Agent.make(
    "files",
    toolkit=kit,
    budget=Budget(rounds=6),
    max_tokens=120,
    stop=(". ",),  # a model of this size repeats itself after one sentence
)


def main() -> None:
    """Let a scripted model read a file with a list and a file with a secret."""
    with TemporaryDirectory() as here:
        Path(here, "todo.txt").write_text("Bake four loaves.\n", encoding="utf-8")
        Path(here, "keys.txt").write_text("-----BEGIN RSA PRIVATE KEY-----\n", encoding="utf-8")
        calls = [call("read_text_file", {"path": name}) for name in ("todo.txt", "keys.txt")]
        model = ScriptedModel.make([*calls, text("There are four loaves to bake.")])
        answer = fx.run(
            agent.execute("What does todo.txt say?").provide(handlers.provide(folder(here))).provide(model.layer)
        )
        for result in (result for step in answer.steps for result in step.results):
            print(f"{result.name}: {result.encoded_result}")
        print(f"answer: {answer.text}")


if __name__ == "__main__":
    main()
