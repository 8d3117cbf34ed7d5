"""Options of servers of Chat Completions, beyond OpenAI's own fields. Use them as values of `provider_options`.

Each class contains the options of a server, under its name in `provider_options`. A plain object with the same fields
works too. fxai does not send None. The reference of the servers lists the source of each fact.

>>> import msgspec
>>> print(msgspec.json.encode(OpenRouterOptions(models=("a/b",), provider=OpenRouterRouting(sort="price"))).decode())
{"provider":{"sort":"price"},"models":["a/b"]}
"""

from __future__ import annotations

from typing import Any, Literal, final

from fxai.models.prepared_tools import Setting


@final
class Switch(Setting, frozen=True):
    """A switch for the reasoning of DeepSeek, Z.ai, Moonshot, and Fireworks."""

    type: Literal["enabled", "disabled"] | None = None
    """`"enabled"` or `"disabled"`."""
    clear_thinking: bool | None = None
    """True to remove the reasoning of earlier turns (Z.ai)."""
    keep: Literal["all"] | None = None
    """`"all"` to keep the reasoning of earlier turns (Moonshot)."""
    budget_tokens: int | None = None
    """The maximum number of tokens for reasoning (Fireworks)."""


@final
class ReasoningLimit(Setting, frozen=True):
    """A limit of reasoning by effort or by tokens. Set only one of them."""

    effort: Literal["max", "xhigh", "high", "medium", "low", "minimal", "none"] | None = None
    """The effort."""
    max_tokens: int | None = None
    """The maximum number of tokens for reasoning."""
    exclude: bool | None = None
    """True to omit reasoning from the answer (OpenRouter)."""
    enabled: bool | None = None
    """True to enable reasoning (OpenRouter)."""


@final
class OpenRouterRouting(Setting, frozen=True):
    """The providers that OpenRouter can use."""

    order: tuple[str, ...] | None = None
    """The names of the providers to try, from first to last."""
    only: tuple[str, ...] | None = None
    """The names of the only permitted providers."""
    ignore: tuple[str, ...] | None = None
    """The names of excluded providers."""
    allow_fallbacks: bool | None = None
    """True if OpenRouter can use other providers when these providers fail."""
    require_parameters: bool | None = None
    """True to use only providers that support every field of the request."""
    data_collection: Literal["allow", "deny"] | None = None
    """`"deny"` to exclude providers that store requests."""
    zdr: bool | None = None
    """True to use only providers with zero data retention."""
    quantizations: tuple[str, ...] | None = None
    """The permitted precisions, such as `"fp8"`."""
    sort: Literal["price", "throughput", "latency", "exacto"] | None = None
    """The criterion for the selection."""
    max_price: dict[str, float] | None = None
    """The maximum price in US dollars per million tokens: `prompt`, `completion`, `image`, `request`."""


@final
class OpenRouterOptions(Setting, frozen=True):
    """The additional fields of OpenRouter."""

    provider: OpenRouterRouting | None = None
    """The providers that OpenRouter can use."""
    models: tuple[str, ...] | None = None
    """The models to try if the first model fails."""
    preset: str | None = None
    """The name of a preset, such as `"@preset/brief"`."""
    transforms: tuple[str, ...] | None = None
    """The transforms of a prompt that is too long."""
    reasoning: ReasoningLimit | None = None
    """The limit of reasoning."""
    plugins: tuple[dict[str, Any], ...] | None = None
    """The plugins of OpenRouter, such as `{"id": "web"}`."""
    usage: dict[str, Any] | None = None
    """`{"include": True}` to receive the cost."""


@final
class SearchSettings(Setting, frozen=True):
    """The sites of a Groq search."""

    include_domains: tuple[str, ...] | None = None
    """The only domains to search."""
    exclude_domains: tuple[str, ...] | None = None
    """The excluded domains."""


@final
class GroqOptions(Setting, frozen=True):
    """The additional fields of Groq."""

    reasoning_format: Literal["parsed", "raw", "hidden"] | None = None
    """The destination of reasoning: a separate field, the text, or none."""
    reasoning_effort: Literal["none", "default", "low", "medium", "high"] | None = None
    """The effort of reasoning."""
    service_tier: Literal["on_demand", "performance", "flex", "auto"] | None = None
    """The service tier."""
    search_settings: SearchSettings | None = None
    """The search settings of models with a built-in search."""


@final
class MistralOptions(Setting, frozen=True):
    """The additional fields of Mistral."""

    safe_prompt: bool | None = None
    """True to insert a safety instruction before the prompt."""
    random_seed: int | None = None
    """The seed for repeatable sampling."""
    prompt_mode: Literal["reasoning"] | None = None
    """`"reasoning"` to enable reasoning."""
    reasoning_effort: Literal["none", "high"] | None = None
    """The effort of reasoning."""
    document_image_limit: int | None = None
    """The maximum number of images in a document."""
    document_page_limit: int | None = None
    """The maximum number of pages in a document."""


@final
class DeepSeekOptions(Setting, frozen=True):
    """The additional fields of DeepSeek."""

    thinking: Switch | None = None
    """The switch for reasoning."""
    reasoning_effort: Literal["low", "high", "max"] | None = None
    """The effort of reasoning."""
    user_id: str | None = None
    """The id of the user, in letters, digits, `_`, and `-`."""


@final
class XaiOptions(Setting, frozen=True):
    """The additional fields of xAI."""

    reasoning_effort: Literal["none", "low", "medium", "high", "xhigh"] | None = None
    """The effort of reasoning."""
    service_tier: Literal["default", "priority"] | None = None
    """The service tier."""
    search_parameters: dict[str, Any] | None = None
    """The parameters of the search: `mode`, `sources`, `from_date`, `to_date`, `return_citations`,
    `max_search_results`."""
    parallel_function_calling: bool | None = None
    """True if the model can call several tools per turn."""


@final
class SamplingOptions(Setting, frozen=True):
    """Sampling fields of vLLM, llama.cpp, LM Studio, and Together."""

    top_k: int | None = None
    """The number of tokens to sample from."""
    min_p: float | None = None
    """The minimum probability of a token, relative to the most probable token."""
    repetition_penalty: float | None = None
    """The penalty of repeated tokens (vLLM and Together)."""
    repeat_penalty: float | None = None
    """The penalty of repeated tokens (llama.cpp and LM Studio)."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Arguments of the model's chat template, such as `{"enable_thinking": False}`."""
    structured_outputs: dict[str, Any] | None = None
    """The form of an answer other than JSON (vLLM)."""
    grammar: str | None = None
    """The grammar of the answer (llama.cpp)."""
    cache_prompt: bool | None = None
    """True to keep the prompt in the cache (llama.cpp)."""
    ttl: int | None = None
    """Seconds until the server unloads an unused model (LM Studio)."""
    reasoning: ReasoningLimit | None = None
    """The limit of reasoning (Together)."""


@final
class FireworksOptions(Setting, frozen=True):
    """The additional fields of Fireworks."""

    thinking: Switch | None = None
    """The switch for reasoning and its limit."""
    reasoning_history: Literal["disabled", "interleaved", "preserved"] | None = None
    """The treatment of the reasoning of earlier turns."""
    service_tier: Literal["priority"] | None = None
    """The service tier."""
    prompt_cache_key: str | None = None
    """The key of requests that share a cache."""


@final
class CerebrasOptions(Setting, frozen=True):
    """The additional fields of Cerebras."""

    clear_thinking: bool | None = None
    """True to remove the reasoning of earlier turns."""
    reasoning_effort: Literal["none", "low", "medium", "high", "max"] | None = None
    """The effort of reasoning."""


@final
class PerplexityOptions(Setting, frozen=True):
    """The additional fields of Perplexity."""

    search_mode: Literal["web", "academic"] | None = None
    """The kind of sources to search."""
    search_domain_filter: tuple[str, ...] | None = None
    """The sites to search. A `-` before a site excludes it."""
    search_recency_filter: str | None = None
    """The maximum age of a page, such as `"week"`."""
    search_after_date_filter: str | None = None
    """The first day of publication, as `"%m/%d/%Y"`."""
    search_before_date_filter: str | None = None
    """The last day of publication."""
    last_updated_after_filter: str | None = None
    """The first day of the last update."""
    last_updated_before_filter: str | None = None
    """The last day of the last update."""
    return_images: bool | None = None
    """True to return images."""
    return_related_questions: bool | None = None
    """True to return related questions."""
    disable_search: bool | None = None
    """True to disable the search."""
    enable_search_classifier: bool | None = None
    """True if the model decides whether to search."""
    web_search_options: dict[str, Any] | None = None
    """The size of the search context and the location of the user."""


@final
class MoonshotOptions(Setting, frozen=True):
    """The additional fields of Moonshot."""

    thinking: Switch | None = None
    """The switch for reasoning."""
    reasoning_effort: Literal["low", "high", "max"] | None = None
    """The effort of reasoning (Kimi K3)."""
    prompt_cache_key: str | None = None
    """The key of requests that share a cache."""
    safety_identifier: str | None = None
    """The id of the user."""


@final
class ZaiOptions(Setting, frozen=True):
    """The additional fields of Z.ai."""

    thinking: Switch | None = None
    """The switch for reasoning, and the treatment of earlier reasoning."""


@final
class AlibabaOptions(Setting, frozen=True):
    """The additional fields of Alibaba."""

    enable_thinking: bool | None = None
    """True to enable reasoning."""
    thinking_budget: int | None = None
    """The maximum number of tokens for reasoning."""
    preserve_thinking: bool | None = None
    """True to keep the reasoning of earlier turns."""


@final
class ReasoningOptions(Setting, frozen=True):
    """The reasoning field of Ollama and Snowflake."""

    reasoning: ReasoningLimit | None = None
    """The limit of reasoning."""
