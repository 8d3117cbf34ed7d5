"""Options of tools. Use this module to read the options of a new tool, and to change the tool later.

>>> from fxai.tools.tool import Tool
>>> Tool.make("ping", description="Answers.", failure_mode="return").description
'Answers.'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NotRequired, Self, TypedDict

import msgspec
from msgspec.structs import replace
from typing_extensions import TypeForm, TypeVar, Unpack

from fxai.schema.codec import Schema
from fxai.schema.data import frozen
from fxai.schema.fault import SchemaError
from fxai.tools.annotation import Annotation, Annotations
from fxai.tools.identity import FailureMode
from fxai.tools.tool_error import nearest_name
from fxai.tools.tool_info import Example, NeedsApproval, PlainData, ToolInfo, check_examples

_K = TypeVar("_K")
_P = TypeVar("_P", default=Any)
_S = TypeVar("_S", default=Any)
_F = TypeVar("_F", default=Any)


class ToolOptions(TypedDict, Generic[_P, _S], total=False):
    """The options of every kind of tool. `P` is the type of the parameters, and `S` is the type of the success."""

    description: str | None
    """The description of the tool for the model. Default: the description in the schema of the parameters."""
    failure_mode: FailureMode
    """The channel of a typed failure. `"error"` (default): the error channel. `"return"`: the model, as the result."""
    annotations: Annotations | Mapping[Annotation[Any], Any]
    """Initial annotations. `tool.annotate` adds more."""
    needs_approval: NeedsApproval[_P]
    """True if each call needs an approval, or a function that decides. Default: False.

    If the function fails, raises, or returns a value other than False, the call needs an approval.
    """
    input_examples: Sequence[object]
    """Example calls: parameters as JSON values, or `Example(request, parameters)`.

    If the parameters do not allow an example, fxai raises `SchemaError`.
    """
    to_model_output: Callable[[_S], PlainData] | None
    """A function that converts a success to another JSON value for the model. The result itself stays unchanged.

    An exception from the function is a defect that names the tool. By default, the model receives the encoded success.
    """
    provider_options: Mapping[str, Any]
    """Options by provider name. Only this provider reads them."""
    dependencies: Iterable[Any]
    """Keys of the services that the handler needs. They are documentation, and fxai does not check them."""


if TYPE_CHECKING:

    class TypeOptions(ToolOptions[_P, _S], Generic[_P, _S, _F], total=False):
        """The options of a tool with the types of its success and failure, as classes or schemas."""

        success: type[_S] | Schema[_S]
        """The type of the success. Default: `None`."""
        failure: type[_F] | Schema[_F]
        """The type of the failure. Default: `Never`, no failure."""

    class FormOptions(ToolOptions[_P, _S], Generic[_P, _S, _F], total=False):
        """The options of `TypeOptions` for a union, `Literal`, `Annotated`, `NewType`, `None`, or an alias."""

        success: TypeForm[_S]
        """The type of the success. Default: `None`."""
        failure: TypeForm[_F]
        """The type of the failure. Default: `Never`, no failure."""

    class MakeOptions(ToolOptions[_P, _S], Generic[_P, _S, _F], total=False):
        """The options of `TypeOptions` and `FormOptions`, for pyright."""

        success: type[_S] | Schema[_S] | TypeForm[_S]
        """The type of the success. Default: `None`."""
        failure: type[_F] | Schema[_F] | TypeForm[_F]
        """The type of the failure. Default: `Never`, no failure."""

    class _Provider(TypedDict):
        id: str
        name: str
        provider_name: str | None
        args: NotRequired[type[msgspec.Struct]]

    class TypeProvider(_Provider, Generic[_S, _F]):
        """The names of a provider's tool, with the types of its success and failure as classes or schemas."""

        success: NotRequired[type[_S] | Schema[_S]]
        """The type of the success. Default: `None`."""
        failure: NotRequired[type[_F] | Schema[_F]]
        """The type of the failure. Default: `Never`, no failure."""

    class FormProvider(_Provider, Generic[_S, _F]):
        """The options of `TypeProvider`, for other type forms."""

        success: NotRequired[TypeForm[_S]]
        """The type of the success. Default: `None`."""
        failure: NotRequired[TypeForm[_F]]
        """The type of the failure. Default: `Never`, no failure."""


_KNOWN: Final = frozenset(ToolOptions.__annotations__)
_NONE: Final = Annotations()


def option_fields(options: ToolOptions, name: str) -> dict[str, Any]:
    """Return the options as immutable fields of the tool `name`.

    Raises:
        SchemaError: If an option is unknown or has an invalid value.
    """
    return _read_options(options, name) if options else dict(_DEFAULTS)


def _read_options(options: ToolOptions, name: str) -> dict[str, Any]:
    unknown = set(options) - _KNOWN
    if unknown:
        known = ("parameters", "success", "failure", *ToolOptions.__annotations__)
        problem = f"unknown option {', '.join(sorted(map(repr, unknown)))}{nearest_name(min(unknown), known)}"
        raise SchemaError(f"tool {name!r}: {problem}. Use one of: {', '.join(known)}")
    mode = options.get("failure_mode", "error")
    if mode not in ("error", "return"):
        raise SchemaError(f"tool {name!r}: failure_mode must be 'error' or 'return', got {mode!r}")
    _check_functions(options, name)
    annotations = options.get("annotations", _NONE)
    examples = _examples(options.get("input_examples", ()), name)
    return {
        "given_description": options.get("description"),
        "annotations": annotations if isinstance(annotations, Annotations) else Annotations(annotations),
        "needs_approval": options.get("needs_approval", False),
        "input_examples": examples,
        "to_model_output": options.get("to_model_output"),
        "provider_options": frozen(dict(options.get("provider_options", {}))),
        "dependencies": tuple(options.get("dependencies", ())),
    }


def check_name(name: str) -> str:
    """Return the name of a tool, or raise `SchemaError` if it is not a string or is blank."""
    if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SchemaError(f"tool name must be a string that is not blank, got {name!r}")
    return name


def _check_functions(options: ToolOptions, name: str) -> None:
    approval: object = options.get("needs_approval", False)
    if not (isinstance(approval, bool) or callable(approval)):
        problem = f"needs_approval must be True, False, or a function of parameters and context, got {approval!r}"
        raise SchemaError(f"tool {name!r}: {problem}")
    show: object = options.get("to_model_output")
    if show is None:
        return
    if not callable(show):
        raise SchemaError(f"tool {name!r}: to_model_output must be a function of the success or None, got {show!r}")
    if inspect.iscoroutinefunction(show) or inspect.isasyncgenfunction(show):
        raise SchemaError(f"tool {name!r}: to_model_output must not be an async function. Define it with def.")
    try:
        inspect.signature(show).bind(None)
    except TypeError as error:
        problem = f"to_model_output must accept the success as its only argument, got {show!r}: {error}"
        raise SchemaError(f"tool {name!r}: {problem}") from None
    except ValueError:  # a builtin without a signature
        return


def _examples(given: Any, name: str) -> tuple[Example, ...]:
    """Return the examples as immutable values.

    Raises:
        SchemaError: If `given` is not a list of examples.
    """
    is_single = isinstance(given, Mapping | str | bytes | Example)
    if is_single or not hasattr(given, "__iter__"):
        problem = f"input_examples must be a list of examples, each with all parameters of one call, got {given!r}"
        raise SchemaError(f"tool {name!r}: {problem}")
    examples = [each if isinstance(each, Example) else Example(None, each) for each in given]
    return tuple([Example(each.request, frozen(each.parameters)) for each in examples])


class ToolCombinators(Generic[_P, _S]):
    """Methods that change a tool or function tool and preserve its kind and identity."""

    __slots__ = ()

    def __fx_change__(self, f: Callable[[Any], Any], /) -> Self:
        """Return a copy with the tool that `f` returns."""
        raise NotImplementedError

    def annotate(self, key: Annotation[_K], value: _K) -> Self:
        """Return the tool with an annotation."""
        return self.annotate_all({key: value})

    def annotate_all(self, annotations: Annotations | Mapping[Annotation[Any], Any]) -> Self:
        """Return the tool with these annotations. They replace existing values."""
        added = annotations if isinstance(annotations, Annotations) else Annotations(annotations)
        return self.__fx_change__(lambda tool: replace(tool, annotations=tool.annotations.merge(added)))

    def rename(self, name: str) -> Self:
        """Return the tool with another name."""
        return self.__fx_change__(lambda tool: replace(tool, name=check_name(name)))

    def prefix(self, prefix: str) -> Self:
        """Return the tool with `prefix` before its name."""
        return self.__fx_change__(lambda tool: replace(tool, name=check_name(prefix + tool.name)))

    def with_description(self, description: str) -> Self:
        """Return the tool with another description."""
        return self.__fx_change__(lambda tool: replace(tool, given_description=description))

    def with_options(self, **options: Unpack[ToolOptions[_P, _S]]) -> Self:
        """Return the tool with other options. Another failure mode creates another identity."""

        def change(tool: ToolInfo) -> ToolInfo:
            fields = option_fields(options, tool.name)
            names = {"description": "given_description"}
            changed = {names.get(k, k): fields[names.get(k, k)] for k in options if k != "failure_mode"}
            if "failure_mode" in options:
                changed["failure_mode"] = options["failure_mode"]
                changed["identity"] = tool.identity.with_mode(options["failure_mode"])
            made = replace(tool, **changed)
            if "input_examples" in options:
                check_examples(made)
            return made

        return self.__fx_change__(change)


_DEFAULTS: Final = _read_options({}, "")
