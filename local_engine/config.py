"""What an engine process is told at its start: the device, its limits, and the models to load."""

from typing import Literal

from msgspec import Struct

DeviceName = Literal["auto", "npu", "cuda", "cpu"]
CompileMode = Literal["auto", "on", "off"]
DTypeName = Literal["auto", "float32", "bfloat16", "float16"]


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of an engine.

    path: a folder as Hugging Face lays it out (config.json, *.safetensors, tokenizer files),
          a name at the Hugging Face hub, `bundled:NAME`, or `package:NAME/FOLDER`.
    revision: of a model at the hub: a branch, a tag or a commit; "" is its main branch.
    special_tokens_in_prompts: of raw prompts and inputs: "parse" makes the spelling of a special
          token that token, "text" makes it ordinary text.
    matryoshka: of an embedding model: requests may ask for fewer dimensions, although the
          model's files don't say that it was trained for that.
    token_inputs: of an embedding model: whether inputs may be token ids. Nothing tells whose
          tokenizer made them, and those of another one are mostly in range.
    """

    name: str
    path: str
    revision: str = ""
    special_tokens_in_prompts: Literal["parse", "text"] = "parse"
    task: Literal["generate", "embed"] = "generate"
    matryoshka: bool = False
    token_inputs: Literal["accept", "refuse"] = "refuse"


class LoraConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A low-rank adapter, served as a model of its own name beside its base.

    path: a folder as peft saves it. base: one of the generating models.
    """

    name: str
    path: str
    base: str


class EngineConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine process. `"auto"` values are settled on the machine itself.

    threads:         CPU threads of the forward pass; 0 leaves torch's own choice.
    max_seq_len:     prompt and answer together, tokens; `None` is each model's own.
    max_new_tokens:  ceiling for `max_tokens` and its default in chats; `None`: the context's end.
    max_step_tokens: token budget of one forward pass; `None`: 512 on a CPU, else 8192.
    max_sequences:   answers in progress at once, each model.
    max_waiting:     answers waiting for their turn, each model; more are refused as busy.
    kv_cache:        bytes for keys and values, shared evenly by the generating models.
    compile:         kernels made for this CPU by its compiler; "auto" wherever there is one.
    prefix_cache:    reuse the keys and values of equal prompt beginnings of one tenant.
    max_first_token_wait_s: seconds in the queue that make up for one priority; who has waited so
                     long, and has not begun, may take the place of an answer that ranks lower.
    draft_tokens:    guessed ahead by prompt lookup, at most, where few answers are in progress; a
                     guess that is wrong costs time and changes nothing. 0: no guesses.
    max_logits_bytes: of context and generation logits in one answer.
    step_timeout_s:  a step that takes longer ends the process, which then starts again.
    environment:     names of variables that the process gets beside the usual ones.
    engines:         processes that share this machine, which divides an `auto` kv_cache.
    accept_lora:     requests may bring adapters of their own; max_loras, max_lora_bytes: how many
                     of those, and of how many bytes, are kept for later requests.
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
