"""The sketch that this library grew from, frozen: a baseline to measure against, never imported by anything else."""
from . import fx as fx
from ._concurrent import FiberHandle as FiberHandle
from ._core import ClassKey as ClassKey, Context as Context, Ctx as Ctx, Effect as Effect, Fx as Fx, Gen as Gen
from ._core import Key as Key, MissingService as MissingService, Service as Service, Tag as Tag, Timeout as Timeout
from ._exit import Cause as Cause, Die as Die, Exit as Exit, Fail as Fail, Failed as Failed
from ._exit import FailureError as FailureError, Interrupt as Interrupt, Succeeded as Succeeded
from ._interop import HandlerReturn as HandlerReturn
from ._layer import Lay as Lay, Layer as Layer, Runtime as Runtime, runtime as runtime
from ._resource import Scope as Scope
from ._tool import BadParams as BadParams, Tool as Tool, ToolFailure as ToolFailure
from ._tool import Toolkit as Toolkit, ToolNotFound as ToolNotFound
