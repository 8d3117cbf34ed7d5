"""What the checkers infer of the providers' own tools and of prepared tools."""

from __future__ import annotations

from typing import Any, Never, assert_type

import msgspec
from returns.result import Result, Success

from fxai.annotations import AllowedCallers, Caller, DeferLoading, Namespace, ToolNamespace
from fxai.effects import LayerOf
from fxai.messages import AiError
from fxai.models import LanguageModel, PreparedTools, ToolChoice
from fxai.providers import anthropic, openai
from fxai.providers.http import ConnectionOptions
from fxai.tools import ExternalTool, HandlerOf, Tool, Toolkit


class Words(msgspec.Struct, frozen=True):
    text: str


# --- how a provider is reached is one set of options for all of their layers
reached: ConnectionOptions = {"api_key": "sk-1", "timeout": 30, "headers": {"x-team": "a"}}
assert_type(openai.layer("gpt-5.5", api="chat", project="p", **reached), LayerOf[LanguageModel, AiError, None])
assert_type(anthropic.layer("claude-sonnet-5", **reached), LayerOf[LanguageModel, AiError, None])

# --- what the provider runs needs no handler
search = openai.web_search(search_context_size="low", user_location=openai.UserLocation(city="Oslo"))
assert_type(search, ExternalTool[Any, object, Never])
assert_type(anthropic.web_search(max_uses=2), ExternalTool[Any, object, Never])
assert_type(openai.shell(environment=openai.ContainerAuto()), ExternalTool[Any, object, Never])
assert_type(openai.tool_search(), ExternalTool[Any, object, Never])
openai.image_generation(quality="max", svg=openai.Svg(model="gpt-5.5"), needs_approval=True)
openai.mcp(server_label="docs", server_url="https://d.e", allowed_tools=["find"], require_approval="always")
anthropic.web_fetch(version="20260309", use_cache=True, citations=anthropic.Citations(enabled=True))

# --- what we run is typed in what it asks with and in what it gives
shell = openai.shell()
assert_type(shell, Tool[openai.ShellAction, list[openai.ShellOutput], str])
assert_type(anthropic.bash(), Tool[anthropic.BashCommand, str, str])
assert_type(anthropic.memory(name="notes"), Tool[anthropic.MemoryCommand, str, str])
assert_type(anthropic.text_editor(max_characters=9), Tool[anthropic.EditorCommand, str, str])
assert_type(anthropic.text_editor(version="20250124"), Tool[anthropic.EditorCommand20250124, str, str])
assert_type(openai.computer(), Tool[openai.ComputerActions, openai.Screen, str])
assert_type(openai.custom("sql"), Tool[str, str, Never])
assert_type(openai.custom("count", success=int, failure=Words), Tool[str, int, Words])
assert_type(openai.tool_search(parameters=Words), Tool[Words, list[dict[str, Any]], str])


def on_bash(command: anthropic.BashCommand) -> Result[str, str]:
    return Success(command.command or "")


bash = anthropic.bash()
kit = Toolkit.make(bash, anthropic.web_search())
assert_type(kit, Toolkit[HandlerOf[anthropic.BashCommand, str, str]])
kit.to_layer(bash.handler(on_bash))

# --- annotations are typed by their keys
assert_type(bash.annotate(DeferLoading, True).get(AllowedCallers), tuple[Caller, ...])
bash.annotate(AllowedCallers, ("direct", "programmatic")).annotate(Namespace, ToolNamespace("n", "Names."))

# --- prepared tools
prepared = anthropic.prepare_tools(kit, model="claude-sonnet-5", tool_choice=ToolChoice.tool("bash"))
assert_type(prepared, PreparedTools)
assert_type(prepared.call("bash", {}), tuple[str, Any])
openai.prepare_tools([shell, search], model="gpt-5.5", api="chat", tool_choice="auto")
