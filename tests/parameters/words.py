"""The text of docs/parameters.md around its tables."""

from collections.abc import Mapping

from strowger_gateway.schemas.fields import Task

TITLES: Mapping[Task, str] = {
    "chat": "Chat",
    "completion": "Completions",
    "embeddings": "Embeddings",
    "tokens": "Tokens",
    "rerank": "Reranking",
    "score": "Scores",
    "classify": "Classes",
    "pool": "Pooling",
    "moderate": "Moderation",
}

HEAD = """# Parameters by adapter

Every request field and every adapter: whether the backend supports the field, and under which name
it receives it. The tables are generated from the adapters' own data (`make parameters`), which the
router, `strowger models ADAPTER` and the handling of unsupported fields use as well; tests send
every field to every adapter, alone and together, and compare the bytes with this data.

- **✓**: sent as the client wrote it, under the field's own name and in the form of OpenAI's
  dialect.
- **`stop_sequences`**: supported, and sent under another name or in another form. `a.b` is `b`
  inside `a`, `x[]` every entry of a list `x`, `inputs[x]` a tensor of that name; for a part of a
  message, the type of part that it becomes.
- **`a` + `b`**: sent in both places; **`a` or `b`**: in one of them, depending on the model.
- **0 … 2**, **≥ 1**, **at most 4 entries**: the values that this backend accepts, if they are
  narrower than the API's own.
- **required**: this backend rejects requests without the field; send it, or set it in the model's
  `defaults`. Otherwise `max_tokens` is the model's maximum, and `x-gateway-defaulted-params` names
  it ([adr/0022](adr/0022-drop-hints-and-report-lost-fields.md)).
- **–**: not supported. The gateway rejects the request or drops the field, and names it either way.

Names are those of the OpenAI dialect if it has the field. `max_tokens` is also
`max_completion_tokens`: where the dialect knows both, the name that the client used is kept.
`messages.image` is an image that is sent as bytes (a `data:` URI), `messages.remote_image` one that
has to be fetched, `messages.opaque` a part of any other type (a file), `tools.opaque` a tool that
is not a function, `prompt.tokens` and `input.tokens` token ids in place of text, `prompt.batch`
more than one prompt. `messages.reasoning` is the reasoning of earlier turns that a client sends
back: text, signed text, or encrypted. A backend does not receive kinds that it does not read;
`x-gateway-dropped-params` names them, and the request is never rejected for them.

If capabilities depend on the base URL or version (Azure's older API versions, Anthropic's later
ones, Gemini on Vertex), the tables show the adapter's default; `local` is the engine on this
machine.
"""

TAIL = """## Unsupported fields

The gateway first tries backends of the model that support every field. Backends that lack only
fields that the client's dialect never rejects come after them, as fallbacks, unless the model has
`require`. If there are neither, the model's `on_unsupported` ([configuration.md](configuration.md))
decides:

- `error`, the default: a 400 whose `param` is the field and whose message names the backend and the
  reason.
- `drop`: the request is sent without the field, and `x-gateway-dropped-params` names it. Content
  (`messages.*`, `prompt.*`, `input.tokens`) is never dropped, because that would change the
  request.

Hints do not change the answer: `store: false`, `prompt_cache_key`, `prompt_cache_retention`,
`prompt_cache_options`, `safety_identifier`, `user`, `metadata`, `service_tier: auto` or `default`,
`stream_options.include_obfuscation`, `verbosity`, and `reasoning_effort` if the backend has no
equivalent. A backend that does not support one gets the request without it,
`x-gateway-dropped-params` names it, and no other backend is preferred. A model with `require: true`
treats hints like all other fields.

Fields below the top level that do not exist in a backend's dialect
(`messages[].content[].cache_control`) are omitted and named by their path; `[]` stands for any
entry of a list. A model with `require: true` rejects them.

A value without effect (`n: 1`, `top_p: 1`, an empty list) is never rejected; a value out of range
is treated like an unsupported field. Some restrictions of an adapter depend on values, models or
combinations, and result in a 400 with the reason; they are listed on the provider's own page
([providers/](providers)).

The gateway adds some capabilities itself, so that a model can support more than its adapter's
column: it fetches images for backends that accept only bytes, enforces stop strings and end tokens,
adds `echo` and the suffix, splits several prompts or choices into several requests, and with
`tokenizer:` converts between text and tokens ([tokens.md](tokens.md)).
"""
