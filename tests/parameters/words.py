"""What docs/parameters.md says around its tables."""

from collections.abc import Mapping

from schemas.fields import Task

TITLES: Mapping[Task, str] = {
    "chat": "Chat",
    "completion": "Completions",
    "embeddings": "Embeddings",
    "tokens": "Tokens",
}

HEAD = """# What becomes of each parameter

Every request field and every adapter: whether the backend honours it, under which name it gets it,
or that it cannot be told. The tables are written from the adapters' own data (`make parameters`),
which the router, `strowger models ADAPTER` and the rule on parameters that nobody honours read as
well; tests send every field to every adapter, alone and together, and compare the bytes with it.

- **✓**: sent as the client wrote it, under the field's own name and in the form of OpenAI's
  dialect.
- **`stop_sequences`**: honoured, and said under another name or in another form. `a.b` is `b`
  inside `a`, `x[]` every entry of a list `x`, `inputs[x]` a tensor of that name; of a part of a
  message, what it becomes.
- **`a` + `b`**: said in both places; **`a` or `b`**: in the one or the other, as the model wants
  it.
- **0 … 2**, **≥ 1**, **at most 4 entries**: the values that this backend takes, where they are
  narrower than the API's own.
- **required**: this backend takes no request without it; send it, or set it in the model's
  `defaults`. Where neither does, `max_tokens` is the model's own ceiling, and
  `x-gateway-defaulted-params` says so ([adr/0022](adr/0022-drop-hints-and-report-lost-fields.md)).
- **–**: impossible. Refused by name, or dropped by name, never passed over in silence.

Names are those of the OpenAI dialect where it has one. `max_tokens` is also
`max_completion_tokens`: where the dialect knows both, the name that the client used is kept.
`messages.image` is an image that comes with its bytes (a `data:` URI), `messages.remote_image` one
that somebody has to fetch, `messages.opaque` a part of any other type (a file), `tools.opaque` a
tool that is no function, `prompt.tokens` and `input.tokens` token ids in place of text,
`prompt.batch` more than one prompt. `messages.reasoning` is thinking that a client hands back:
text, text that is signed by whoever thought it, or encrypted; what a backend does not read of it is
left out of what it gets, named in `x-gateway-dropped-params`, and never refused.

Where an address decides (Azure's older API versions, Anthropic's later ones, Gemini on Vertex), the
tables show the adapter as it comes; `local` is the engine on this machine.
"""

TAIL = """## What becomes of a field that is refused

A backend of the model that honours every field goes first; one that lacks only what the client's
dialect never refuses comes after it, for when that fails, unless the model says `require`. Only
where there is neither, the model's `on_unsupported` ([configuration.md](configuration.md)) decides:

- `error`, the default: a 400 whose `param` is the field and whose message names the backend and the
  reason.
- `drop`: the request goes without the field, and `x-gateway-dropped-params` names it. Content
  (`messages.*`, `prompt.*`, `input.tokens`) is never dropped, for a request without it would be
  another request.

Hints change no answer: `store: false`, `prompt_cache_key`, `prompt_cache_retention`,
`prompt_cache_options`, `safety_identifier`, `user`, `metadata`, `service_tier: auto` or `default`,
`stream_options.include_obfuscation`, `verbosity`, and `reasoning_effort` where the backend has no
word for it. A backend that does not take one gets the request without it,
`x-gateway-dropped-params` names it, and no other backend is preferred. A model with `require: true`
treats hints like all other fields.

Fields below the top level that a backend's dialect has no place for
(`messages[].content[].cache_control`) are left out and named by their path; `[]` stands for any
entry of a list. A model with `require: true` refuses them.

A value that asks for nothing (`n: 1`, `top_p: 1`, an empty list) is never refused; a value out of
range is, like a field that is not supported. Some of an adapter's refusals depend on values, models
or combinations, and come as a 400 that says so; the provider's own page tells which
([providers/](providers)).

The gateway does some of it itself, so that a model can do more than its adapter's column: images
are fetched for backends that take bytes alone, stop strings and end tokens are enforced, `echo` and
the suffix are added, several prompts or choices become several requests, and with `tokenizer:`
texts become tokens and tokens text ([tokens.md](tokens.md)).
"""
