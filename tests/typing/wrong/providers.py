"""Providers' own tools with args that they do not have, and handlers that do not fit."""

from __future__ import annotations

from returns.result import Result, Success

from fxai.annotations import AllowedCallers, DeferLoading
from fxai.models import ToolChoice
from fxai.providers import anthropic, openai
from fxai.tools import Toolkit

openai.web_search(search_context_size="huge")  # wrong: no such size
openai.web_search(max_uses=2)  # wrong: OpenAI's has no such arg
openai.web_search(user_location="Oslo")  # wrong: a place has parts
openai.file_search()  # wrong: the stores are missing
openai.image_generation(colour="red")  # wrong: no such arg
openai.mcp(server_label="docs", require_approval="sometimes")  # wrong: always, never, or rules
openai.custom("sql", format="lark")  # wrong: a grammar has a definition
openai.computer_use_preview(display_width=800, display_height=600, environment="phone")  # wrong: no such computer
openai.UserLocation(town="Oslo")  # wrong: no such part
anthropic.web_search(version="20240101")  # wrong: no such version
anthropic.web_search(max_uses="two")  # wrong: a number
anthropic.web_fetch(citations=True)  # wrong: citations are a setting
anthropic.text_editor(version="20250124", max_characters=9)  # wrong: not in that version
anthropic.bash(shell="zsh")  # wrong: no such arg
anthropic.tool_search(by="magic")  # wrong: by words or by pattern


def on_words(words: str) -> Result[str, str]:
    return Success(words)


bash = anthropic.bash()
bash.handler(on_words)  # wrong: it asks with a command
Toolkit.make(anthropic.web_search()).to_layer(bash.handler(on_words))  # wrong: it asks with a command
bash.annotate(DeferLoading, "later")  # wrong: yes or no
bash.annotate(AllowedCallers, ("anybody",))  # wrong: the model or a program
openai.prepare_tools([bash])  # wrong: the model is missing
openai.prepare_tools([bash], model="gpt-5.5", api="completions")  # wrong: no such API
openai.prepare_tools([bash], model="gpt-5.5", tool_choice="bash")  # wrong: a name is ToolChoice.tool(name)
openai.layer("gpt-5.5", retries=3)  # wrong: it is `retry`, a schedule
openai.embedding_layer("text-embedding-3-small", timeout="long")  # wrong: a number of seconds, or a Timeout
anthropic.layer("claude-sonnet-5", organization="acme")  # wrong: OpenAI's alone
anthropic.prepare_tools([bash], model="claude-sonnet-5", allowed_tools=ToolChoice.one_of(["bash"]))  # wrong: not there
