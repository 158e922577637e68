"""Configuration of an engine process: the device, its limits and the models to load."""

from typing import Literal

from msgspec import Struct

DeviceName = Literal["auto", "npu", "cuda", "cpu"]
CompileMode = Literal["auto", "on", "off"]
DTypeName = Literal["auto", "float32", "bfloat16", "float16"]


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of an engine.

    path: a folder in Hugging Face's layout (config.json, *.safetensors, tokenizer files),
          a name at the Hugging Face hub, `bundled:NAME`, or `package:NAME/FOLDER`.
    revision: branch, tag or commit of a model at the hub; "" is its main branch.
    special_tokens_in_prompts: for raw prompts and inputs: "parse" turns the spelling of a special
          token into that token, "text" keeps it ordinary text.
    matryoshka: for an embedding model: requests may set fewer dimensions even if the model's
          files do not say that it was trained for that.
    token_inputs: for an embedding model: whether inputs may be token ids. The engine cannot see
          which tokenizer made them, and ids of another tokenizer are mostly in range.
    tool_calls: "schema" holds calls to the offered functions and their schemas also where the
          model decides whether to call (`tool_choice: auto`); "free" only where a request asks for
          it. `None`: "schema" for a bundled model, which is too small to spell every name.
    """

    name: str
    path: str
    revision: str = ""
    special_tokens_in_prompts: Literal["parse", "text"] = "parse"
    task: Literal["generate", "embed"] = "generate"
    matryoshka: bool = False
    token_inputs: Literal["accept", "refuse"] = "refuse"
    tool_calls: Literal["free", "schema"] | None = None

    @property
    def holds_calls(self) -> bool:
        """Whether calls follow their schemas although no request asks for it."""
        chosen = self.tool_calls or ("schema" if self.path.startswith("bundled:") else "free")
        return chosen == "schema"


class LoraConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A LoRA adapter, served under its own model name next to its base.

    path: a folder saved by peft. base: one of the generating models.
    """

    name: str
    path: str
    base: str


class EngineConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine process. `"auto"` values are resolved on the machine itself.

    threads:         CPU threads of the forward pass; 0 keeps torch's default.
    max_seq_len:     prompt and answer together, tokens; `None` is each model's own.
    max_new_tokens:  upper limit of `max_tokens` and its default in chats; `None`: the rest of the
                     context.
    max_step_tokens: token budget of one forward pass; `None`: 512 on a CPU, else 8192.
    max_sequences:   concurrent answers per model.
    max_waiting:     queued answers per model; further ones are rejected as busy.
    kv_cache:        bytes for keys and values, shared evenly by the generating models.
    compile:         compile kernels for this CPU; "auto" does so if a compiler is installed.
    graphs:          capture decoding steps on devices that have graphs.
    prefix_cache:    reuse the keys and values of equal prompt beginnings of one tenant.
    max_first_token_wait_s: seconds in the queue that count as one priority level. An answer that
                     waited this long without starting may preempt one that now ranks lower.
    draft_tokens:    most tokens drafted by prompt lookup per step while few answers run; a wrong
                     draft costs time and does not change the answer. 0: no drafts.
    max_logits_bytes: limit for context and generation logits in one answer.
    step_timeout_s:  a longer step ends the process, which then restarts.
    environment:     names of environment variables passed to the process besides the usual ones.
    engines:         processes that share this machine and divide an `auto` kv_cache.
    accept_lora:     requests may send their own adapters; max_loras, max_lora_bytes: how many of
                     them, and how many bytes, are cached for later requests.
    """

    models: tuple[ModelConfig, ...]
    device: DeviceName = "auto"
    dtype: DTypeName = "auto"
    threads: int = 0
    max_seq_len: int | None = None
    max_new_tokens: int | None = None
    max_step_tokens: int | None = None
    max_sequences: int = 256
    max_waiting: int = 4096
    kv_cache: int | Literal["auto"] = "auto"
    prefix_cache: bool = True
    compile: CompileMode = "auto"
    graphs: bool = True
    max_first_token_wait_s: float = 2.5
    draft_tokens: int = 0
    max_logits_bytes: int = 256 << 20
    step_timeout_s: float = 600.0
    environment: tuple[str, ...] = ()
    engines: int = 1
    loras: tuple[LoraConfig, ...] = ()
    accept_lora: bool = False
    max_loras: int = 64
    max_lora_bytes: int = 256 << 20
