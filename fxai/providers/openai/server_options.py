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
    """A switch for the reasoning of DeepSeek, Z.ai, Moonshot, and Fireworks.

    Attributes:
        type: `"enabled"` or `"disabled"`.
        clear_thinking: True to remove the reasoning of earlier turns (Z.ai).
        keep: `"all"` to keep the reasoning of earlier turns (Moonshot).
        budget_tokens: The maximum number of tokens for reasoning (Fireworks).
    """

    type: Literal["enabled", "disabled"] | None = None
    clear_thinking: bool | None = None
    keep: Literal["all"] | None = None
    budget_tokens: int | None = None


@final
class ReasoningLimit(Setting, frozen=True):
    """A limit of reasoning by effort or by tokens. Set only one of them.

    Attributes:
        effort: The effort.
        max_tokens: The maximum number of tokens for reasoning.
        exclude: True to omit reasoning from the answer (OpenRouter).
        enabled: True to enable reasoning (OpenRouter).
    """

    effort: Literal["max", "xhigh", "high", "medium", "low", "minimal", "none"] | None = None
    max_tokens: int | None = None
    exclude: bool | None = None
    enabled: bool | None = None


@final
class OpenRouterRouting(Setting, frozen=True):
    """The providers that OpenRouter can use.

    Attributes:
        order: The names of the providers to try, from first to last.
        only: The names of the only permitted providers.
        ignore: The names of excluded providers.
        allow_fallbacks: True if OpenRouter can use other providers when these providers fail.
        require_parameters: True to use only providers that support every field of the request.
        data_collection: `"deny"` to exclude providers that store requests.
        zdr: True to use only providers with zero data retention.
        quantizations: The permitted precisions, such as `"fp8"`.
        sort: The criterion for the selection.
        max_price: The maximum price in US dollars per million tokens: `prompt`, `completion`, `image`, `request`.
    """

    order: tuple[str, ...] | None = None
    only: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    allow_fallbacks: bool | None = None
    require_parameters: bool | None = None
    data_collection: Literal["allow", "deny"] | None = None
    zdr: bool | None = None
    quantizations: tuple[str, ...] | None = None
    sort: Literal["price", "throughput", "latency", "exacto"] | None = None
    max_price: dict[str, float] | None = None


@final
class OpenRouterOptions(Setting, frozen=True):
    """The additional fields of OpenRouter.

    Attributes:
        provider: The providers that OpenRouter can use.
        models: The models to try if the first model fails.
        preset: The name of a preset, such as `"@preset/brief"`.
        transforms: The transforms of a prompt that is too long.
        reasoning: The limit of reasoning.
        plugins: The plugins of OpenRouter, such as `{"id": "web"}`.
        usage: `{"include": True}` to receive the cost.
    """

    provider: OpenRouterRouting | None = None
    models: tuple[str, ...] | None = None
    preset: str | None = None
    transforms: tuple[str, ...] | None = None
    reasoning: ReasoningLimit | None = None
    plugins: tuple[dict[str, Any], ...] | None = None
    usage: dict[str, Any] | None = None


@final
class SearchSettings(Setting, frozen=True):
    """The sites of a Groq search.

    Attributes:
        include_domains: The only domains to search.
        exclude_domains: The excluded domains.
    """

    include_domains: tuple[str, ...] | None = None
    exclude_domains: tuple[str, ...] | None = None


@final
class GroqOptions(Setting, frozen=True):
    """The additional fields of Groq.

    Attributes:
        reasoning_format: The destination of reasoning: a separate field, the text, or none.
        reasoning_effort: The effort of reasoning.
        service_tier: The service tier.
        search_settings: The search settings of models with a built-in search.
    """

    reasoning_format: Literal["parsed", "raw", "hidden"] | None = None
    reasoning_effort: Literal["none", "default", "low", "medium", "high"] | None = None
    service_tier: Literal["on_demand", "performance", "flex", "auto"] | None = None
    search_settings: SearchSettings | None = None


@final
class MistralOptions(Setting, frozen=True):
    """The additional fields of Mistral.

    Attributes:
        safe_prompt: True to insert a safety instruction before the prompt.
        random_seed: The seed for repeatable sampling.
        prompt_mode: `"reasoning"` to enable reasoning.
        reasoning_effort: The effort of reasoning.
        document_image_limit: The maximum number of images in a document.
        document_page_limit: The maximum number of pages in a document.
    """

    safe_prompt: bool | None = None
    random_seed: int | None = None
    prompt_mode: Literal["reasoning"] | None = None
    reasoning_effort: Literal["none", "high"] | None = None
    document_image_limit: int | None = None
    document_page_limit: int | None = None


@final
class DeepSeekOptions(Setting, frozen=True):
    """The additional fields of DeepSeek.

    Attributes:
        thinking: The switch for reasoning.
        reasoning_effort: The effort of reasoning.
        user_id: The id of the user, in letters, digits, `_`, and `-`.
    """

    thinking: Switch | None = None
    reasoning_effort: Literal["low", "high", "max"] | None = None
    user_id: str | None = None


@final
class XaiOptions(Setting, frozen=True):
    """The additional fields of xAI.

    Attributes:
        reasoning_effort: The effort of reasoning.
        service_tier: The service tier.
        search_parameters: The parameters of the search: `mode`, `sources`, `from_date`, `to_date`, `return_citations`,
            `max_search_results`.
        parallel_function_calling: True if the model can call several tools per turn.
    """

    reasoning_effort: Literal["none", "low", "medium", "high", "xhigh"] | None = None
    service_tier: Literal["default", "priority"] | None = None
    search_parameters: dict[str, Any] | None = None
    parallel_function_calling: bool | None = None


@final
class SamplingOptions(Setting, frozen=True):
    """Sampling fields of vLLM, llama.cpp, LM Studio, and Together.

    Attributes:
        top_k: The number of tokens to sample from.
        min_p: The minimum probability of a token, relative to the most probable token.
        repetition_penalty: The penalty of repeated tokens (vLLM and Together).
        repeat_penalty: The penalty of repeated tokens (llama.cpp and LM Studio).
        chat_template_kwargs: Arguments of the model's chat template, such as `{"enable_thinking": False}`.
        structured_outputs: The form of an answer other than JSON (vLLM).
        grammar: The grammar of the answer (llama.cpp).
        cache_prompt: True to keep the prompt in the cache (llama.cpp).
        ttl: Seconds until the server unloads an unused model (LM Studio).
        reasoning: The limit of reasoning (Together).
    """

    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    grammar: str | None = None
    cache_prompt: bool | None = None
    ttl: int | None = None
    reasoning: ReasoningLimit | None = None


@final
class FireworksOptions(Setting, frozen=True):
    """The additional fields of Fireworks.

    Attributes:
        thinking: The switch for reasoning and its limit.
        reasoning_history: The treatment of the reasoning of earlier turns.
        service_tier: The service tier.
        prompt_cache_key: The key of requests that share a cache.
    """

    thinking: Switch | None = None
    reasoning_history: Literal["disabled", "interleaved", "preserved"] | None = None
    service_tier: Literal["priority"] | None = None
    prompt_cache_key: str | None = None


@final
class CerebrasOptions(Setting, frozen=True):
    """The additional fields of Cerebras.

    Attributes:
        clear_thinking: True to remove the reasoning of earlier turns.
        reasoning_effort: The effort of reasoning.
    """

    clear_thinking: bool | None = None
    reasoning_effort: Literal["none", "low", "medium", "high", "max"] | None = None


@final
class PerplexityOptions(Setting, frozen=True):
    """The additional fields of Perplexity.

    Attributes:
        search_mode: The kind of sources to search.
        search_domain_filter: The sites to search. A `-` before a site excludes it.
        search_recency_filter: The maximum age of a page, such as `"week"`.
        search_after_date_filter: The first day of publication, as `"%m/%d/%Y"`.
        search_before_date_filter: The last day of publication.
        last_updated_after_filter: The first day of the last update.
        last_updated_before_filter: The last day of the last update.
        return_images: True to return images.
        return_related_questions: True to return related questions.
        disable_search: True to disable the search.
        enable_search_classifier: True if the model decides whether to search.
        web_search_options: The size of the search context and the location of the user.
    """

    search_mode: Literal["web", "academic"] | None = None
    search_domain_filter: tuple[str, ...] | None = None
    search_recency_filter: str | None = None
    search_after_date_filter: str | None = None
    search_before_date_filter: str | None = None
    last_updated_after_filter: str | None = None
    last_updated_before_filter: str | None = None
    return_images: bool | None = None
    return_related_questions: bool | None = None
    disable_search: bool | None = None
    enable_search_classifier: bool | None = None
    web_search_options: dict[str, Any] | None = None


@final
class MoonshotOptions(Setting, frozen=True):
    """The additional fields of Moonshot.

    Attributes:
        thinking: The switch for reasoning.
        reasoning_effort: The effort of reasoning (Kimi K3).
        prompt_cache_key: The key of requests that share a cache.
        safety_identifier: The id of the user.
    """

    thinking: Switch | None = None
    reasoning_effort: Literal["low", "high", "max"] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None


@final
class ZaiOptions(Setting, frozen=True):
    """The additional fields of Z.ai.

    Attributes:
        thinking: The switch for reasoning, and the treatment of earlier reasoning.
    """

    thinking: Switch | None = None


@final
class AlibabaOptions(Setting, frozen=True):
    """The additional fields of Alibaba.

    Attributes:
        enable_thinking: True to enable reasoning.
        thinking_budget: The maximum number of tokens for reasoning.
        preserve_thinking: True to keep the reasoning of earlier turns.
    """

    enable_thinking: bool | None = None
    thinking_budget: int | None = None
    preserve_thinking: bool | None = None


@final
class ReasoningOptions(Setting, frozen=True):
    """The reasoning field of Ollama and Snowflake.

    Attributes:
        reasoning: The limit of reasoning.
    """

    reasoning: ReasoningLimit | None = None
