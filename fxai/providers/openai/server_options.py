"""What servers of Chat Completions take beside the fields of OpenAI's own: as values, which `provider_options` take.

Each class is the options of one server, under its name in `provider_options`; a plain object with the same fields is
as good. What is None is not sent. Where each fact comes from is in the reference of the servers.

>>> import msgspec
>>> print(msgspec.json.encode(OpenRouterOptions(models=("a/b",), provider=OpenRouterRouting(sort="price"))).decode())
{"provider":{"sort":"price"},"models":["a/b"]}
"""

from __future__ import annotations

from typing import Any, Literal, final

from fxai.models.prepared_tools import Setting


@final
class Switch(Setting, frozen=True):
    """Whether and how a model reasons, as DeepSeek, Z.ai, Moonshot and Fireworks take it.

    Attributes:
        type: On or off.
        clear_thinking: Whether the reasoning of earlier turns is taken out; at Z.ai.
        keep: `"all"` keeps it; at Moonshot.
        budget_tokens: The most tokens of it; at Fireworks.
    """

    type: Literal["enabled", "disabled"] | None = None
    clear_thinking: bool | None = None
    keep: Literal["all"] | None = None
    budget_tokens: int | None = None


@final
class ReasoningLimit(Setting, frozen=True):
    """How much a model reasons: by an effort or by tokens, not both.

    Attributes:
        effort: The effort.
        max_tokens: The most tokens of it.
        exclude: Whether it is kept out of the answer; at OpenRouter.
        enabled: Whether it reasons at all; at OpenRouter.
    """

    effort: Literal["max", "xhigh", "high", "medium", "low", "minimal", "none"] | None = None
    max_tokens: int | None = None
    exclude: bool | None = None
    enabled: bool | None = None


@final
class OpenRouterRouting(Setting, frozen=True):
    """Which providers OpenRouter may ask.

    Attributes:
        order: Their names, in the order in which they are tried.
        only: The only ones.
        ignore: Those that are not asked.
        allow_fallbacks: Whether others may be asked where these cannot answer.
        require_parameters: Whether only those are asked that know every field of the request.
        data_collection: Whether they may keep what they are sent.
        zdr: Whether only those that keep nothing are asked.
        quantizations: The precisions that may be used, such as `"fp8"`.
        sort: What decides among them.
        max_price: The most, in US dollars for a million tokens: `prompt`, `completion`, `image`, `request`.
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
    """OpenRouter's own fields.

    Attributes:
        provider: Which providers may be asked.
        models: The models that are asked where the first one cannot answer.
        preset: The name of a preset, such as `"@preset/brief"`.
        transforms: What may be done to a prompt that is too long.
        reasoning: How much the model reasons.
        plugins: What OpenRouter adds, such as `{"id": "web"}`.
        usage: `{"include": True}` asks for the cost.
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
    """Which sites a search of Groq's looks at.

    Attributes:
        include_domains: The only ones.
        exclude_domains: Those that it leaves out.
    """

    include_domains: tuple[str, ...] | None = None
    exclude_domains: tuple[str, ...] | None = None


@final
class GroqOptions(Setting, frozen=True):
    """Groq's own fields.

    Attributes:
        reasoning_format: Where reasoning goes: a field of its own, the text, or nowhere.
        reasoning_effort: How much the model reasons.
        service_tier: How the request is served.
        search_settings: For the models that search by themselves.
    """

    reasoning_format: Literal["parsed", "raw", "hidden"] | None = None
    reasoning_effort: Literal["none", "default", "low", "medium", "high"] | None = None
    service_tier: Literal["on_demand", "performance", "flex", "auto"] | None = None
    search_settings: SearchSettings | None = None


@final
class MistralOptions(Setting, frozen=True):
    """Mistral's own fields.

    Attributes:
        safe_prompt: Whether a text about safety goes before the prompt.
        random_seed: What makes sampling repeatable.
        prompt_mode: `"reasoning"` asks for it.
        reasoning_effort: Whether the model reasons.
        document_image_limit: The most images that are taken from a document.
        document_page_limit: The most pages.
    """

    safe_prompt: bool | None = None
    random_seed: int | None = None
    prompt_mode: Literal["reasoning"] | None = None
    reasoning_effort: Literal["none", "high"] | None = None
    document_image_limit: int | None = None
    document_page_limit: int | None = None


@final
class DeepSeekOptions(Setting, frozen=True):
    """DeepSeek's own fields.

    Attributes:
        thinking: Whether the model reasons.
        reasoning_effort: How much.
        user_id: Who asks, in letters, digits, `_` and `-`.
    """

    thinking: Switch | None = None
    reasoning_effort: Literal["low", "high", "max"] | None = None
    user_id: str | None = None


@final
class XaiOptions(Setting, frozen=True):
    """xAI's own fields.

    Attributes:
        reasoning_effort: How much the model reasons.
        service_tier: How the request is served.
        search_parameters: What is searched: `mode`, `sources`, `from_date`, `to_date`, `return_citations`,
            `max_search_results`.
        parallel_function_calling: Whether several tools may be called in one turn.
    """

    reasoning_effort: Literal["none", "low", "medium", "high", "xhigh"] | None = None
    service_tier: Literal["default", "priority"] | None = None
    search_parameters: dict[str, Any] | None = None
    parallel_function_calling: bool | None = None


@final
class SamplingOptions(Setting, frozen=True):
    """Fields about sampling that vLLM, llama.cpp, LM Studio and Together take.

    Attributes:
        top_k: How many tokens are looked at.
        min_p: The least probability of a token, as a part of the greatest one.
        repetition_penalty: What a token that was there loses, at vLLM and Together.
        repeat_penalty: The same at llama.cpp and LM Studio.
        chat_template_kwargs: What the model's chat template is given, such as `{"enable_thinking": False}`.
        structured_outputs: Another form of answer than JSON, at vLLM.
        grammar: The grammar that the answer follows, at llama.cpp.
        cache_prompt: Whether the prompt stays in the cache, at llama.cpp.
        ttl: The seconds until an unused model is unloaded, at LM Studio.
        reasoning: How much the model reasons, at Together.
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
    """Fireworks' own fields.

    Attributes:
        thinking: Whether the model reasons, and how much.
        reasoning_history: What becomes of the reasoning of earlier turns.
        service_tier: How the request is served.
        prompt_cache_key: Which requests share a cache.
    """

    thinking: Switch | None = None
    reasoning_history: Literal["disabled", "interleaved", "preserved"] | None = None
    service_tier: Literal["priority"] | None = None
    prompt_cache_key: str | None = None


@final
class CerebrasOptions(Setting, frozen=True):
    """Cerebras' own fields.

    Attributes:
        clear_thinking: Whether the reasoning of earlier turns is taken out.
        reasoning_effort: How much the model reasons.
    """

    clear_thinking: bool | None = None
    reasoning_effort: Literal["none", "low", "medium", "high", "max"] | None = None


@final
class PerplexityOptions(Setting, frozen=True):
    """Perplexity's own fields.

    Attributes:
        search_mode: What is searched.
        search_domain_filter: The sites that are looked at; with a `-` before them, those that are not.
        search_recency_filter: How old a page may be, such as `"week"`.
        search_after_date_filter: The first day, as `"%m/%d/%Y"`.
        search_before_date_filter: The last day.
        last_updated_after_filter: The first day of the last change.
        last_updated_before_filter: The last day of it.
        return_images: Whether images are given.
        return_related_questions: Whether further questions are given.
        disable_search: Whether nothing is searched.
        enable_search_classifier: Whether the model decides about that.
        web_search_options: How much is searched, and where the user is.
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
    """Moonshot's own fields.

    Attributes:
        thinking: Whether the model reasons.
        reasoning_effort: How much, at Kimi K3.
        prompt_cache_key: Which requests share a cache.
        safety_identifier: Who asks.
    """

    thinking: Switch | None = None
    reasoning_effort: Literal["low", "high", "max"] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None


@final
class ZaiOptions(Setting, frozen=True):
    """Z.ai's own fields.

    Attributes:
        thinking: Whether the model reasons, and what becomes of earlier reasoning.
    """

    thinking: Switch | None = None


@final
class AlibabaOptions(Setting, frozen=True):
    """Alibaba's own fields.

    Attributes:
        enable_thinking: Whether the model reasons.
        thinking_budget: The most tokens of it.
        preserve_thinking: Whether the reasoning of earlier turns is kept.
    """

    enable_thinking: bool | None = None
    thinking_budget: int | None = None
    preserve_thinking: bool | None = None


@final
class ReasoningOptions(Setting, frozen=True):
    """The field about reasoning that Ollama and Snowflake take.

    Attributes:
        reasoning: How much the model reasons.
    """

    reasoning: ReasoningLimit | None = None
