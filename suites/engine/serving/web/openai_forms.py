"""What /v1/completions and /v1/chat/completions take, in the shapes that OpenAI's clients send."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pydantic

from suites.engine.contract.capabilities.generating import Sampling
from suites.engine.serving.errors import RequestError

_SEEDS = 1 << 63
_MOST_PROMPTS = 128
_NEUTRAL = "x-neutral"


class StreamOptions(pydantic.BaseModel):
    """What a stream holds besides texts."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    include_usage: bool | None = pydantic.Field(None, description="Whether the last chunk counts tokens.")
    include_obfuscation: Literal[False] | None = None


def _neutral(*values: Any) -> Any:
    """A key of OpenAI's that nothing is computed for: besides null it can have only these values, which ask nothing."""
    schema: dict[str, Any] = {_NEUTRAL: list(values)}
    said = f"Not computed here: null{''.join(f', {json.dumps(value)}' for value in values)}."
    return pydantic.Field(None, description=said, json_schema_extra=schema)


def _label() -> Any:
    """A key of OpenAI's that changes no text, whatever it says."""
    return pydantic.Field(None, description="Taken as it is; it changes no text.")


class Asked(pydantic.BaseModel):
    """What both routes take. Keys that nothing is computed for can only have the values that ask nothing."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    model: str | None = pydantic.Field(None, description="A model's name; it has to be served here.")
    max_tokens: int | None = pydantic.Field(None, description="Tokens of a text at most.")
    temperature: float | None = pydantic.Field(
        None, description="0 takes the likeliest token; by default 1, and 0 of a model that translates."
    )
    top_p: float | None = pydantic.Field(None, description="Among the likeliest with this probability together.")
    top_k: int | None = pydantic.Field(None, description="Among so many likeliest; no key of OpenAI's.")
    min_p: float | None = pydantic.Field(None, description="Of this share of the likeliest; no key of OpenAI's.")
    repetition_penalty: float | None = pydantic.Field(
        None, description="Above 1, tokens that are there become less likely; no key of OpenAI's."
    )
    beam: int | None = pydantic.Field(
        None, description="Hypotheses that are kept, and the best are answered; no key of OpenAI's. 1 by default."
    )
    length_penalty: float | None = pydantic.Field(
        None, description="Of beams: above 0, longer texts come first; by default 0.6. No key of OpenAI's."
    )
    n: int | None = pydantic.Field(None, description="Texts for each prompt; by default 1.")
    stop: str | list[str] | None = pydantic.Field(None, description="Texts that end one; at most 16.")
    seed: int | None = pydantic.Field(None, description="The same seed and prompt give the same texts.")
    stream: bool | None = pydantic.Field(None, description="Whether texts come in pieces, as server-sent events.")
    stream_options: StreamOptions | None = None
    user: str | None = pydantic.Field(None, description="Who asks: turns are shared out among users.")
    presence_penalty: Any = _neutral(0)
    frequency_penalty: Any = _neutral(0)
    logit_bias: Any = _neutral({})
    store: Any = _neutral(False)
    service_tier: Any = _neutral("auto", "default")
    metadata: dict[str, str] | None = _label()
    safety_identifier: str | None = _label()
    prompt_cache_key: str | None = _label()

    def check(self) -> None:
        """Raise RequestError for what is not computed here."""
        for name, field in type(self).model_fields.items():
            extra = field.json_schema_extra
            if isinstance(extra, dict) and _NEUTRAL in extra:
                _expect_neutral(name, getattr(self, name), extra[_NEUTRAL])
        if self.length_penalty is not None and self.beam in (None, 1):
            raise RequestError("length_penalty: is of beams; set beam, or leave it out")
        if len(self.stops()) > 16:
            raise RequestError(f"stop: has {len(self.stops())} texts; 16 are allowed")
        if self.seed is not None and not -_SEEDS <= self.seed < _SEEDS:
            raise RequestError(f"seed: is {self.seed}; it must have at most 64 bits")
        if self.counts_tokens and not self.stream:
            raise RequestError("stream_options: is of streams; set stream, or leave it out")

    @property
    def counts_tokens(self) -> bool:
        """Whether the last chunk of a stream counts tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def stops(self) -> list[str]:
        """Texts that end one."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    def sampling(self, temperature: float) -> Sampling:
        """How tokens are chosen; by chance of its own without a seed.  temperature: where none is asked for."""
        seed = secrets.randbits(63) if self.seed is None else self.seed % _SEEDS
        beam = 1 if self.beam is None else self.beam
        usual = temperature if beam == 1 else 0.0
        return Sampling(
            usual if self.temperature is None else self.temperature,
            self.top_p,
            self.top_k,
            self.min_p,
            1.0 if self.repetition_penalty is None else self.repetition_penalty,
            seed,
            beam,
            Sampling.length_penalty if self.length_penalty is None else self.length_penalty,
        )


class CompletionRequest(Asked):
    """Texts that go on."""

    prompt: str | list[str] = pydantic.Field(description="A text, or several.")
    echo: Any = _neutral(False)
    best_of: int | None = pydantic.Field(None, description="As many as `n`: each text is written once.")
    logprobs: Any = _neutral(False)
    suffix: Any = _neutral("")

    def check(self) -> None:
        """See `Asked.check`."""
        super().check()
        count = 1 if self.n is None else self.n
        if self.best_of not in (None, count):
            raise RequestError(f"best_of: is {self.best_of}, n {count}; each text is written once, leave best_of out")
        if not 1 <= len(self.prompts()) <= _MOST_PROMPTS:
            raise RequestError(f"prompt: has {len(self.prompts())} texts; 1 to {_MOST_PROMPTS} are allowed")

    def prompts(self) -> list[str]:
        """The texts."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    def new_tokens(self, most: int | None) -> int | None:
        """Tokens of a text at most.  most: where none is asked for."""
        return most if self.max_tokens is None else self.max_tokens


class TextPart(pydantic.BaseModel):
    """A part of a message that is a text."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    type: Literal["text"]
    text: str


class Message(pydantic.BaseModel):
    """What somebody said."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None
    # What an answer's message has besides, which clients send back.
    refusal: None = None
    audio: None = None
    function_call: None = None
    tool_calls: Annotated[list[Any], pydantic.Field(max_length=0)] | None = None
    annotations: Annotated[list[Any], pydantic.Field(max_length=0)] | None = None

    def plain(self) -> dict[str, str]:
        """As a chat template takes it."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        role = "system" if self.role == "developer" else self.role
        return {"role": role, "content": text} | ({} if self.name is None else {"name": self.name})


class ChatRequest(Asked):
    """Messages, of which the model writes the next."""

    messages: list[Message] = pydantic.Field(description="What was said so far.", max_length=1024)
    max_completion_tokens: int | None = pydantic.Field(None, description="The same as max_tokens.")
    logprobs: Any = _neutral(False)
    top_logprobs: Any = _neutral(0)
    response_format: Any = _neutral({"type": "text"})
    tools: Any = _neutral([])
    tool_choice: Any = _neutral("none", "auto")
    parallel_tool_calls: bool | None = pydantic.Field(None, description="Without tools it asks nothing.")
    functions: Any = _neutral([])
    function_call: Any = _neutral("none", "auto")
    modalities: Any = _neutral(["text"])
    audio: Any = _neutral()
    prediction: Any = _neutral()
    web_search_options: Any = _neutral()
    reasoning_effort: Any = _neutral("none")
    verbosity: Any = _neutral()

    def check(self) -> None:
        """See `Asked.check`."""
        super().check()
        if not self.messages:
            raise RequestError("messages: is empty; it takes one message or more")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise RequestError("max_tokens: differs from max_completion_tokens; leave one out")

    def plain(self) -> list[dict[str, str]]:
        """The messages as a chat template takes them."""
        return [message.plain() for message in self.messages]

    def new_tokens(self) -> int | None:
        """None for as many as there is room for."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


def _expect_neutral(name: str, value: Any, neutral: Any) -> None:
    """Raise RequestError for a value that asks for something; 0 and 0.0 are one value, 0 and false are not."""
    same = any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in neutral)
    if value is not None and not same:
        instead = f", or send {' or '.join(map(json.dumps, neutral))}" if neutral else ""
        raise RequestError(f"{name}: is {json.dumps(value):.60}; it is not computed here, leave it out{instead}")


def usage_of(prompt: int, written: int, reused: int) -> dict[str, Any]:
    """Tokens of a request."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": reused},
    }


def choice_of(chat: bool, index: int, text: str, finish: str | None, *, chunk: bool, first: bool) -> dict[str, Any]:
    """One of the texts of an answer, or the next piece of it."""
    tail: dict[str, Any] = {"logprobs": None, "finish_reason": finish}
    if not chat:
        return {"index": index, "text": text, **tail}
    said: Mapping[str, str] = ({"role": "assistant"} if first else {}) | ({"content": text} if text or first else {})
    return {"index": index, "delta" if chunk else "message": said, **tail}


def refusal_of(message: str, status: int, param: str | None) -> dict[str, Any]:
    """An error in OpenAI's form."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = "server_error" if status >= 500 else kinds.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


def param_of(message: str, names: Sequence[str]) -> str | None:
    """The key that a message is about, which is its first word."""
    name = message.replace(".", " ").replace(":", " ").partition(" ")[0]
    return name if name in names else None
