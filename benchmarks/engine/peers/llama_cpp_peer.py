"""llama.cpp as a peer; run by an interpreter that has llama-cpp-python, gguf and numpy.

    pip install llama-cpp-python gguf numpy     (builds llama.cpp: g++, cmake and ninja)

Writes the folder's safetensors as GGUF once, without a vocabulary, and decodes all prompts greedily
in one batch. ../peer_process.py describes the lines that it reads and writes.
"""

# Its libraries are not dependencies of this project, and ctypes has no types to check:
# pyright: basic, reportMissingImports=false

import ctypes
import json
import struct
import sys
import time
from pathlib import Path

BATCH, CONTEXT = 8, 1024


def say(**line):
    print(json.dumps(line), flush=True)


try:
    import gguf
    import llama_cpp as llama
    import numpy as np
except ImportError as missing:
    say(refused=f"llama.cpp: {missing}; pip install llama-cpp-python gguf numpy")
    sys.exit(0)

ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def main():
    folder, cache, dtype, threads = sys.argv[1:5]
    config = json.loads((Path(folder) / "config.json").read_text())
    path = Path(cache) / f"{Path(folder).name}-{dtype}.gguf"
    if not path.exists():
        write_gguf(Path(folder), config, path, dtype)
    runner = Runner(str(path), int(threads))
    say(name=f"llama.cpp (llama-cpp-python {llama.__version__}), {dtype}")
    for line in sys.stdin:
        ask = json.loads(line)
        say(**runner.run(ask["prompts"], ask["tokens"]))


def tensors(path):
    """(name, shape, bfloat16 numbers as uint16) of a safetensors file."""
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    size = struct.unpack("<Q", bytes(raw[:8]))[0]
    for name, entry in json.loads(bytes(raw[8 : 8 + size])).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "BF16", entry["dtype"]
        begin, end = entry["data_offsets"]
        yield name, entry["shape"], raw[8 + size + begin : 8 + size + end].view(np.uint16)


def write_gguf(folder, config, path, dtype):
    heads, width = config["num_attention_heads"], config["head_dim"]
    kv_heads = config["num_key_value_heads"]
    part = path.with_suffix(".part")
    writer = gguf.GGUFWriter(str(part), ARCHITECTURES[config["model_type"]])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(float(config["rope_parameters"]["rope_theta"]))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    turned = {"self_attn.q_proj.weight": heads, "self_attn.k_proj.weight": kv_heads}
    for file in sorted(folder.glob("*.safetensors")):
        for name, shape, bits in tensors(file):
            numbers = bits.reshape(shape)
            if name in OUTER:
                target = OUTER[name]
            else:
                _, _, layer, tail = name.split(".", 3)
                target = f"blk.{layer}.{LAYER[tail]}"
                if config["model_type"] == "llama" and tail in turned:
                    numbers = interleaved(numbers, turned[tail])
            add(writer, target, numbers, dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(path)


def interleaved(weight, heads):
    """llama.cpp rotates neighbours for this architecture; transformers rotates halves."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def add(writer, name, bits, dtype):
    if dtype == "bf16" and bits.ndim > 1:
        raw = np.ascontiguousarray(bits).view(np.uint8)
        writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        wide = np.ascontiguousarray(bits).astype(np.uint32) << 16
        writer.add_tensor(name, wide.view(np.float32))


class Runner:
    def __init__(self, path, threads):
        quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        self._quiet = quiet(lambda level, text, data: None)
        llama.llama_log_set(self._quiet, ctypes.c_void_p(0))
        llama.llama_backend_init()
        self._model = llama.llama_model_load_from_file(
            path.encode(), llama.llama_model_default_params()
        )
        if not self._model:
            say(refused=f"llama.cpp cannot load {path}")
            sys.exit(0)
        settings = llama.llama_context_default_params()
        settings.n_ctx = BATCH * CONTEXT
        settings.n_batch = settings.n_ubatch = 4096
        settings.n_seq_max = BATCH
        settings.n_threads = settings.n_threads_batch = threads
        self._context = llama.llama_init_from_model(self._model, settings)
        vocabulary = llama.llama_model_get_vocab(self._model)
        self._words = llama.llama_vocab_n_tokens(vocabulary)
        self._batch = llama.llama_batch_init(8192, 0, BATCH)

    def run(self, prompts, tokens):
        llama.llama_memory_clear(llama.llama_get_memory(self._context), True)
        whole = time.perf_counter(), time.process_time()
        rows = [(t, p, s) for s, prompt in enumerate(prompts) for p, t in enumerate(prompt)]
        answers = [[] for _ in prompts]
        lengths = [len(prompt) for prompt in prompts]
        self._compute(rows, {row for row in rows if row[1] == lengths[row[2]] - 1}, answers)
        decode = time.perf_counter(), time.process_time()
        for step in range(tokens - 1):
            rows = [(answers[s][-1], lengths[s] + step, s) for s in range(len(prompts))]
            self._compute(rows, set(rows), answers)
        end = time.perf_counter(), time.process_time()
        return {
            "tokens": answers,
            "whole_wall": end[0] - whole[0],
            "whole_cpu": end[1] - whole[1],
            "decode_wall": end[0] - decode[0],
            "decode_cpu": end[1] - decode[1],
        }

    def _compute(self, rows, drawing, answers):
        """rows: (token, position, sequence); the best next token of each row in `drawing`."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for place, row in enumerate(rows):
            batch.token[place], batch.pos[place] = row[0], row[1]
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = row[2]
            batch.logits[place] = row in drawing
        if llama.llama_decode(self._context, batch):
            raise RuntimeError("llama_decode failed")
        for place, row in enumerate(rows):
            if row in drawing:
                logits = llama.llama_get_logits_ith(self._context, place)
                best = np.ctypeslib.as_array(logits, (self._words,)).argmax()
                answers[row[2]].append(int(best))


if __name__ == "__main__":
    main()
