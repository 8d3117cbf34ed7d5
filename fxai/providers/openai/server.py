"""Servers of Chat Completions as values. Use this module to select a known server or to describe another server.

You can find a server by its name or by its address, or create it:

>>> server_of("groq").base_url
'https://api.groq.com/openai/v1'
>>> server_at("https://openrouter.ai/api/v1").name
'openrouter'
>>> Server(name="acme", base_url="https://llm.acme.example/v1", key="ACME_KEY").stream_usage
True
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, final
from urllib.parse import urlsplit

import msgspec

from fxai.models.model_request import ReasoningEffort
from fxai.models.prepared_tools import Setting
from fxai.providers.openai.server_options import (
    AlibabaOptions,
    CerebrasOptions,
    DeepSeekOptions,
    FireworksOptions,
    GroqOptions,
    MistralOptions,
    MoonshotOptions,
    OpenRouterOptions,
    PerplexityOptions,
    ReasoningOptions,
    SamplingOptions,
    XaiOptions,
    ZaiOptions,
)

TokenLimit: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
"""The field for the maximum number of tokens of an answer."""
Thoughts: TypeAlias = Literal["reasoning_content", "reasoning", "content"]
"""The field for the reasoning of earlier turns. `"content"` means an item in a content list."""


@final
class Server(msgspec.Struct, frozen=True, kw_only=True):
    """The address and the abilities of a server of Chat Completions. The defaults describe an unknown server."""

    name: str
    """The name in `"name:model"`, in `provider_options`, and in failures."""
    base_url: str = ""
    """The address, including the version. `{NAME}` means the value of an environment variable."""
    key: str = ""
    """The environment variable with the key. Empty if the server has no key."""
    other_keys: tuple[str, ...] = ()
    """Variables to read if `key` is not set."""
    needs_key: bool = True
    """True if the server requires a key."""
    key_header: str = "authorization"
    """The header for the key. The header `authorization` contains it as a bearer token."""
    deployments: bool = False
    """True if the name of a model is the name of a deployment, as at Azure."""
    token_limit: TokenLimit | None = None
    """The field for the token limit. By default it depends on the name of the model."""
    stream_usage: bool = True
    """True if a request can set `stream_options` to receive the usage of a stream."""
    supports_strict: bool | None = None
    """True if tools can be strict. By default it depends on the name of the model."""
    supports_schema: bool | None = None
    """True if the server can enforce a JSON Schema. By default it depends on the name of the model."""
    schema_models: str | None = None
    """A pattern for the names of the models with JSON Schemas, if not all models support them."""
    parallel_tool_calls: bool = True
    """True if the server accepts the field `parallel_tool_calls`."""
    forced_choice: bool = True
    """True if a request can force a call. If False, the model can always answer without a call."""
    no_stop: str | None = None
    """A pattern for the names of the models without stop strings."""
    effort: Literal["reasoning_effort", "reasoning"] | None = "reasoning_effort"
    """The field for the effort: `"reasoning_effort"`, or `"reasoning"` for `{"effort": …}`. None if the server has no
    field for the effort."""
    efforts: tuple[ReasoningEffort, ...] = ()
    """The supported efforts in ascending order. fxai sends the nearest effort. Empty if all are supported."""
    translates: bool = False
    """True if the server translates requests for other APIs of the providers. The limits of OpenAI's own Chat
    Completions then do not apply."""
    thoughts: Thoughts | None = None
    """The field for earlier reasoning in another form, such as from another server. None if fxai omits this reasoning
    with a warning."""
    thoughts_always: bool = False
    """True if every turn of the model must contain this field."""
    returns: tuple[str, ...] | None = None
    """The fields of an earlier answer that fxai sends back unchanged, in addition to content and calls. None for all
    fields."""
    short_call_ids: bool = False
    """True if ids of calls must be nine letters and digits. fxai converts other ids."""
    documents: bool = True
    """True if the server accepts documents, such as a PDF."""
    video: bool = False
    """True if the server accepts videos by URL."""
    file_urls: Literal["file_data", "document_url"] | None = None
    """The form of a document at a URL. None if the server does not fetch documents."""
    cache_marks: bool = False
    """True if the server accepts `cache_control` on content and tools."""
    official: bool = False
    """True if the limits and strict keywords of OpenAI's own host apply."""
    options: type[Setting] | None = None
    """The additional fields that `provider_options` can contain under the server's name. None for any fields."""
    sources: tuple[str, ...] = ()
    """The sources of these facts."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The environment variables for the key, in the order of reading."""
        return (self.key, *self.other_keys) if self.key else ()

    @property
    def url_variable(self) -> str:
        """The environment variable for another address, such as `GROQ_BASE_URL`."""
        return f"{self.name.upper().replace('-', '_')}_BASE_URL"

    def key_variable(self) -> str:
        """Return the variable that contains the key. If none is set, return the first variable."""
        return next((name for name in self.keys if os.environ.get(name, "").strip()), self.key)

    def missing_variable(self) -> str | None:
        """Return the first missing environment variable, or None if the server is configured."""
        if self.needs_key and self.key and not os.environ.get(self.key_variable(), "").strip():
            return self.key
        if os.environ.get(self.url_variable):
            return None
        return next((name for name in _VARIABLE.findall(self.base_url) if not os.environ.get(name, "").strip()), None)

    def address(self) -> str:
        """Return the address from the environment. Raises `LookupError` with the name of a missing variable."""
        given = os.environ.get(self.url_variable, "").strip()
        if given:
            return given

        def value_of(found: re.Match[str]) -> str:
            value = os.environ.get(found[1], "").strip().rstrip("/")
            if not value:
                raise LookupError(found[1])
            return value

        return _VARIABLE.sub(value_of, self.base_url)

    def takes_back(self, field: object) -> bool:
        """Return True if fxai sends this field of an earlier answer back unchanged."""
        return self.returns is None or field in self.returns


_VARIABLE: Final = re.compile(r"\{([A-Z_]+)\}")


COMPATIBLE: Final = Server(name="openai", needs_key=False)
"""An unknown server with the API of Chat Completions."""

OPENAI_CHAT: Final = Server(
    name="openai",
    base_url="https://api.openai.com/v1",
    key="OPENAI_API_KEY",
    token_limit="max_completion_tokens",
    returns=(),
    official=True,
)
"""OpenAI's own Chat Completions. It rejects unknown fields."""

_PYDANTIC: Final = "the profiles of pydantic-ai-slim 2.68.0"
_AI_SDK: Final = "the package @ai-sdk/{} {}"
_LITELLM: Final = "the transformations of litellm 1.110.2"
_RECORDED: Final = "recorded exchanges"

_ALL: Final[tuple[Server, ...]] = (
    Server(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        key="GROQ_API_KEY",
        token_limit="max_tokens",
        stream_usage=False,  # every stream contains its usage in `x_groq`
        supports_strict=False,
        schema_models=r"gpt-oss|kimi-k2|llama-4",
        thoughts="reasoning",
        returns=("reasoning",),
        options=GroqOptions,
        sources=("https://console.groq.com/docs/openai", _AI_SDK.format("groq", "3.0.71"), _PYDANTIC, _RECORDED),
    ),
    Server(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key="OPENROUTER_API_KEY",
        token_limit="max_tokens",
        effort="reasoning",
        translates=True,
        thoughts="reasoning",
        returns=("reasoning", "reasoning_details", "annotations", "extra_content"),
        video=True,
        file_urls="file_data",
        cache_marks=True,
        options=OpenRouterOptions,
        sources=(_PYDANTIC, "the package @openrouter/ai-sdk-provider 2.10.0", _RECORDED),
    ),
    Server(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key="MISTRAL_API_KEY",
        token_limit="max_tokens",
        stream_usage=False,  # every stream contains its usage
        efforts=("none", "high"),
        thoughts="content",
        returns=("content",),
        short_call_ids=True,
        file_urls="document_url",
        options=MistralOptions,
        sources=(_AI_SDK.format("mistral", "3.0.69"), _LITELLM, _RECORDED),
    ),
    Server(
        name="deepseek",
        base_url="https://api.deepseek.com",
        key="DEEPSEEK_API_KEY",
        token_limit="max_tokens",
        supports_strict=False,  # except at its beta address
        supports_schema=False,
        forced_choice=False,  # not during reasoning, which is the default
        efforts=("low", "high", "max"),
        thoughts="reasoning_content",
        thoughts_always=True,
        returns=("reasoning_content",),
        documents=False,
        options=DeepSeekOptions,
        sources=(
            "https://api-docs.deepseek.com/guides/thinking_mode",
            _AI_SDK.format("deepseek", "2.0.69"),
            _PYDANTIC,
        ),
    ),
    Server(
        name="xai",
        base_url="https://api.x.ai/v1",
        key="XAI_API_KEY",
        token_limit="max_completion_tokens",
        no_stop=r"grok-3-mini|grok-4|grok-code-fast",
        returns=(),
        options=XaiOptions,
        sources=(_AI_SDK.format("xai", "3.0.138"), _LITELLM, _RECORDED),
    ),
    Server(
        name="together",
        base_url="https://api.together.xyz/v1",
        key="TOGETHER_API_KEY",
        token_limit="max_tokens",
        thoughts="reasoning_content",
        options=SamplingOptions,
        sources=(_AI_SDK.format("togetherai", "2.0.84"), _PYDANTIC),
    ),
    Server(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key="FIREWORKS_API_KEY",
        token_limit="max_tokens",
        thoughts="reasoning_content",
        options=FireworksOptions,
        sources=(_AI_SDK.format("fireworks", "2.0.90"), _PYDANTIC, _LITELLM),
    ),
    Server(
        name="cerebras",
        base_url="https://api.cerebras.ai/v1",
        key="CEREBRAS_API_KEY",
        token_limit="max_tokens",
        thoughts="reasoning",
        returns=("reasoning",),
        options=CerebrasOptions,
        sources=(_AI_SDK.format("cerebras", "2.0.82"), _PYDANTIC, _RECORDED),
    ),
    Server(
        name="ollama",
        base_url="http://localhost:11434/v1",
        key="OLLAMA_API_KEY",
        needs_key=False,
        token_limit="max_tokens",
        supports_strict=False,
        thoughts="reasoning",
        returns=("reasoning",),
        options=ReasoningOptions,
        sources=("https://docs.ollama.com/api/openai-compatibility", _PYDANTIC, _RECORDED),
    ),
    Server(
        name="vllm",
        base_url="http://localhost:8000/v1",
        key="VLLM_API_KEY",
        needs_key=False,
        token_limit="max_tokens",
        thoughts="reasoning",
        documents=False,
        options=SamplingOptions,
        sources=("https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html", _PYDANTIC),
    ),
    Server(
        name="lmstudio",
        base_url="http://localhost:1234/v1",
        key="LM_STUDIO_API_KEY",
        needs_key=False,
        token_limit="max_tokens",
        options=SamplingOptions,
        sources=("https://lmstudio.ai/docs/developer", _LITELLM),
    ),
    Server(
        name="llamacpp",
        base_url="http://localhost:8080/v1",
        key="LLAMA_API_KEY",
        needs_key=False,
        token_limit="max_tokens",
        options=SamplingOptions,
        sources=("runs of llama.cpp here",),
    ),
    Server(
        name="azure",
        base_url="{AZURE_OPENAI_ENDPOINT}/openai/v1",
        key="AZURE_OPENAI_API_KEY",
        other_keys=("AZURE_API_KEY",),
        key_header="api-key",
        deployments=True,
        returns=(),
        documents=False,
        sources=(
            "https://learn.microsoft.com/en-us/azure/ai-foundry/openai/api-version-lifecycle",
            _PYDANTIC,
            _AI_SDK.format("azure", "3.0.128"),
        ),
    ),
    Server(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        key="PERPLEXITY_API_KEY",
        token_limit="max_tokens",
        stream_usage=False,  # each event contains the usage
        returns=(),
        options=PerplexityOptions,
        sources=(_AI_SDK.format("perplexity", "3.0.61"), _LITELLM, _RECORDED),
    ),
    Server(
        name="snowflake",
        base_url="https://{SNOWFLAKE_ACCOUNT}.snowflakecomputing.com/api/v2/cortex/v1",
        key="SNOWFLAKE_TOKEN",
        token_limit="max_completion_tokens",
        supports_strict=False,
        effort="reasoning",
        efforts=("low", "medium", "high"),
        returns=("reasoning_details", "extra_content", "thought_signature"),
        options=ReasoningOptions,
        sources=("https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api", _PYDANTIC, _LITELLM),
    ),
    Server(
        name="huggingface",
        base_url="https://router.huggingface.co/v1",
        key="HF_TOKEN",
        other_keys=("HUGGINGFACE_API_KEY",),
        token_limit="max_tokens",
        sources=(_AI_SDK.format("huggingface", "1.0.77"), _PYDANTIC, _RECORDED),
    ),
    Server(
        name="github",
        base_url="https://models.github.ai/inference",
        key="GITHUB_API_KEY",
        other_keys=("GITHUB_TOKEN",),
        returns=(),
        sources=(_PYDANTIC,),
    ),
    Server(
        name="moonshot",
        base_url="https://api.moonshot.ai/v1",
        key="MOONSHOT_API_KEY",
        other_keys=("MOONSHOTAI_API_KEY",),
        token_limit="max_completion_tokens",
        schema_models=r"kimi-k|moonshot-v1",
        forced_choice=False,
        efforts=("low", "high", "max"),
        thoughts="reasoning_content",
        returns=("reasoning_content",),
        options=MoonshotOptions,
        sources=(
            "https://platform.moonshot.ai/docs/guide/migrating-from-openai-to-kimi",
            _AI_SDK.format("moonshotai", "2.0.61"),
            _PYDANTIC,
        ),
    ),
    Server(
        name="zai",
        base_url="https://api.z.ai/api/paas/v4",
        key="ZAI_API_KEY",
        token_limit="max_tokens",
        supports_schema=False,
        thoughts="reasoning_content",
        returns=("reasoning_content",),
        options=ZaiOptions,
        sources=(_PYDANTIC, _LITELLM, _RECORDED),
    ),
    Server(
        name="alibaba",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key="ALIBABA_API_KEY",
        other_keys=("DASHSCOPE_API_KEY",),
        token_limit="max_tokens",
        thoughts="reasoning_content",
        returns=("reasoning_content",),
        documents=False,
        options=AlibabaOptions,
        sources=(_AI_SDK.format("alibaba", "1.0.61"), _PYDANTIC, _RECORDED),
    ),
)

SERVERS: Final[Mapping[str, Server]] = {server.name: server for server in sorted(_ALL, key=lambda one: one.name)}
"""The known servers by name."""

_HOSTS: Final = {"openai.azure.com": "azure", "services.ai.azure.com": "azure", "snowflakecomputing.com": "snowflake"}


def server_of(server: str | Server) -> Server:
    """Return the server with this name, or the given server.

    Raises:
        ValueError: If the name is unknown.
    """
    if isinstance(server, Server):
        return server
    if server not in SERVERS:
        raise ValueError(f"unknown server {server!r}. Use one of: {', '.join(SERVERS)}, or pass a Server.")
    return SERVERS[server]


def server_at(base_url: str) -> Server:
    """Return the server at this address: OpenAI's server, a known server, or an unknown server.

    >>> server_at("https://api.openai.com/v1").name, server_at("http://[no address").key
    ('openai', '')
    """
    try:
        location = urlsplit(base_url).netloc.rpartition("@")[2].lower()
    except ValueError:  # the client reports the invalid address
        return COMPATIBLE
    if location == "api.openai.com":
        return OPENAI_CHAT
    for server in SERVERS.values():
        if urlsplit(server.base_url).netloc == location:
            return server
    name = next((name for host, name in _HOSTS.items() if location.endswith(f".{host}")), None)
    return COMPATIBLE if name is None else SERVERS[name]
