"""Targets: values in Python modules, named on the command line as `module:name` or `path.py:name`.

>>> from fxai.agents.agent import Agent
>>> load("fxai.cli.example:agent", Agent, "an agent").name
'files'
"""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from sysconfig import get_paths
from types import ModuleType
from typing import Any, Final, TypeAlias

from typing_extensions import TypeVar

from fxai.cli.cli_error import WRONG_USE, CliError
from fxai.schema.display import one_line

__all__ = ["load", "load_matching"]

_T = TypeVar("_T")
_Fits: TypeAlias = Callable[[object], bool]
_LIBRARIES: Final = tuple(get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep


def load(target: str, kind: type[_T], what: str) -> _T:
    """The value that `target` names, which is of `kind`; `what` says so in words. The name may go deeper: `a.b`.

    Raises:
        CliError: the target has no name, cannot be found or imported, or is something else.
    """
    value: _T = load_matching(target, lambda value: isinstance(value, kind), what)
    return value


def load_matching(target: str, fits: _Fits, what: str) -> Any:
    """The value that `target` names, for which `fits` is true; `what` says in words what that is.

    Raises:
        CliError: as `load`.
    """
    place, _, name = target.rpartition(":")
    if not place or not name or (place.endswith(".py") and "/" in name):
        raise CliError(f"{target!r} names no value", "write module:name or path.py:name", code=WRONG_USE)
    module = _module(place, target)
    value: Any = module
    try:
        for part in name.split("."):
            value = _attribute(value, part, target, fits)
        if not fits(value):
            raise CliError(f"{target} is {_kind_of(value)}, not {what}", _instead(module, fits, place), code=WRONG_USE)
    except (KeyboardInterrupt, CliError):
        raise
    except BaseException as raised:  # an attribute that raises when it is read
        raise _import_error(target, raised, "looked at") from raised
    return value


def _attribute(value: Any, part: str, target: str, fits: _Fits) -> Any:
    try:
        return getattr(value, part)
    except AttributeError:
        there = [name for name in dir(value) if not name.startswith("_")]
        near = difflib.get_close_matches(part, there, n=1)
        fitting = [name for name in there if _holds(value, name, fits)]
        said = f"did you mean {near[0]!r}" if near else f"there is: {', '.join(fitting or there[:8]) or 'nothing'}"
        raise CliError(f"{target} does not exist: {part!r} is not there", said, code=WRONG_USE) from None


def _holds(value: Any, name: str, fits: _Fits) -> bool:
    try:
        return fits(getattr(value, name, None))
    except Exception:  # an attribute that raises when it is read is not offered
        return False


def _kind_of(value: object) -> str:
    return f"a class, {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"


def _instead(module: ModuleType, fits: _Fits, place: str) -> str:
    there = [name for name in vars(module) if _holds(module, name, fits)]
    return (
        f"there is {', '.join(f'{place}:{name}' for name in there[:4])}" if there else f"{place} has none; name another"
    )


def _module(place: str, target: str) -> ModuleType:
    try:
        return _from_file(Path(place)) if place.endswith(".py") else _from_path(place)
    except (KeyboardInterrupt, CliError):
        raise
    except ModuleNotFoundError as missing:
        if missing.name is not None and (place == missing.name or place.startswith(f"{missing.name}.")):
            remedy = "give a module that can be imported from here, or path.py:name"
            raise CliError(f"{target}: there is no module {missing.name}", remedy, code=WRONG_USE) from None
        raise _import_error(place, missing) from missing
    except BaseException as raised:  # whatever the module raises, SystemExit too
        raise _import_error(place, raised) from raised


def _from_path(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        there = Path(name)
        what = "a folder" if there.is_dir() else "no Python file" if there.exists() else "no module's name"
        raise CliError(f"{name!r} is {what}", "write module:name or path.py:name", code=WRONG_USE)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return import_module(name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CliError(f"there is no file {path}", "give the path of a Python file", code=WRONG_USE)
    folder = str(path.parent.resolve())
    if folder not in sys.path:  # so that it can import its neighbours, as when it is run as a script
        sys.path.insert(0, folder)
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_{abs(hash(path.resolve())):x}"
    if _same(sys.modules.get(path.stem), path):
        return sys.modules[path.stem]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CliError(f"{path} cannot be imported", "give the path of a Python file", code=WRONG_USE)
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _same(module: ModuleType | None, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path.resolve()


def _import_error(place: str, raised: BaseException, done: str = "imported") -> CliError:
    frames = [f for f in traceback.extract_tb(raised.__traceback__) if "importlib" not in f.filename]
    outside = [f for f in frames if not f.filename.startswith(_PACKAGE)]
    own = [f for f in outside if not f.filename.startswith(_LIBRARIES)]
    where = (own or outside)[-1] if outside else None
    line = getattr(raised, "lineno", None) if isinstance(raised, SyntaxError) else where and where.lineno
    file = getattr(raised, "filename", None) if isinstance(raised, SyntaxError) else where and where.filename
    why = (raised.strerror if isinstance(raised, OSError) else None) or str(raised)
    said = f"{one_line(place, 200)} cannot be {done}: {type(raised).__name__}: {why}"
    return CliError(said, f"look at {file}:{line}" if file and line else "correct it", cause=raised)
