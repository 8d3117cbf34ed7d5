"""A loop over cases in one test, which reports each failing case by name. Use it for many short cases.

pytest spends about five milliseconds on each parametrised case, and lists it in each worker. A loop costs nothing:

    @every("text", ["a", "b"])
    def test_text_is_short(text: str) -> None:
        assert len(text) < 2

Keep `pytest.mark.parametrize` if a case is slow, so that workers can share the cases.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

__all__ = ["EveryError", "every"]

_FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)


class EveryError(ExceptionGroup[Exception]):
    """The failures of a loop. The message lists each failing case; the group holds the exceptions with tracebacks."""


def every(
    names: str | Sequence[str],
    cases: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each case in one pytest item, and fail once with all failing cases.

    The arguments are the arguments of `pytest.mark.parametrize`, and several decorators make nested loops. Each case
    has its own folder below `tmp_path`, loses its changes by `monkeypatch`, and sees only its own output and log. All
    cases share any other fixture.

    Args:
        names: Parameter names: a sequence, or a string that commas separate.
        cases: One value for each case, or a tuple if `names` has several names. A function makes the cases when the
            test runs, so that collection does not pay for them.
        ids: Names of the cases, or a function from one value to a name. Default: made from the values.

    Raises:
        EveryError: If any case fails or skips itself, or if no case exists.
    """
    parameters = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[tuple[str, Exception]] = []
            count = 0
            for count, (name, values) in enumerate(_named(parameters, cases, ids), 1):
                try:
                    _run_case(test, dict(zip(parameters, values, strict=True)), fixtures, count)
                except _FAILURES as error:
                    failures.append((name, _as_exception(error)))
            _report(failures, count)

        signature = inspect.signature(test)
        rest = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        run.__dict__["__signature__"] = signature.replace(parameters=rest)
        return run

    return decorate


def _named(
    parameters: list[str],
    cases: Iterable[Any] | Callable[[], Iterable[Any]],
    ids: Iterable[object] | Callable[[Any], object] | None,
) -> Iterable[tuple[str, tuple[Any, ...]]]:
    listed = list(cases() if callable(cases) else cases)
    given = list(ids) if ids is not None and not callable(ids) else [None] * len(listed)
    for case, known in zip(listed, given, strict=True):
        values = tuple(case.values) if hasattr(case, "marks") else (case,) if len(parameters) == 1 else tuple(case)
        name = known if known is not None else getattr(case, "id", None) if hasattr(case, "marks") else None
        yield str(name if name is not None else "-".join(_name(value, ids) for value in values)), values


def _name(value: Any, ids: object) -> str:
    made = ids(value) if callable(ids) else None
    if made is None:
        made = value if isinstance(value, str) else getattr(value, "__name__", None) or repr(value)
    return str(made)[:80]


def _run_case(test: Callable[..., None], values: Mapping[str, Any], fixtures: dict[str, Any], count: int) -> None:
    own = dict(fixtures)
    for captured in {"capsys", "capfd"} & own.keys():
        own[captured].readouterr()
    if "caplog" in own:
        own["caplog"].clear()
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / str(count)
        own["tmp_path"].mkdir()
    if "monkeypatch" not in own:
        test(**own, **values)
        return
    with own["monkeypatch"].context() as own["monkeypatch"]:
        test(**own, **values)


def _as_exception(error: BaseException) -> Exception:
    if isinstance(error, pytest.skip.Exception):
        return RuntimeError("one case of a loop cannot be skipped. Use pytest.mark.parametrize.")
    return error if isinstance(error, Exception) else AssertionError(str(error))


def _report(failures: list[tuple[str, Exception]], count: int) -> None:
    if not count:
        raise EveryError("no cases", [ValueError("the loop has no cases. Give it at least one.")])
    if not failures:
        return
    lines: list[str] = []
    for name, error in failures:
        error.add_note(f"case: {name}")
        lines.extend(_lines(name, error))
    title = f"{len(failures)} of {count} cases failed:\n"
    raise EveryError(title + "\n".join(lines), [error for _, error in failures])


def _lines(name: str, error: Exception) -> list[str]:
    if isinstance(error, EveryError):  # a nested loop: each line names the case of both loops
        return [f"{name}, {line}" for line in error.message.splitlines()[1:]]
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return [f"{name}: {first if isinstance(error, AssertionError) else f'{type(error).__name__}: {first}'}"]
