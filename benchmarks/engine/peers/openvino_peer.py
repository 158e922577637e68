"""OpenVINO GenAI's continuous batching as a peer; run by an interpreter that has both packages.

    pip install openvino-genai optimum-intel torch      (optimum-intel converts the model)

Converts the folder once (optimum's text-generation-with-past) and sends all prompts to
ContinuousBatchingPipeline in one call. ../peer_process.py describes the lines that it reads and
writes.
"""

# Its libraries are not dependencies of this project:
# pyright: basic, reportMissingImports=false

import json
import sys
import time
from pathlib import Path


def say(**line):
    print(json.dumps(line), flush=True)


try:
    import numpy as np
    import openvino as ov
    import openvino_genai as genai
except ImportError as missing:
    say(refused=f"OpenVINO GenAI: {missing}; pip install openvino-genai optimum-intel torch")
    sys.exit(0)


def main():
    folder, cache, dtype, threads = sys.argv[1:5]
    path = Path(cache) / f"{Path(folder).name}-openvino"
    if not (path / "openvino_model.xml").exists():
        convert(folder, path)
    runner = Runner(path, dtype, int(threads))
    say(name=f"OpenVINO GenAI {genai.__version__}, {dtype} arithmetic")
    for line in sys.stdin:
        ask = json.loads(line)
        say(**runner.run(ask["prompts"], ask["tokens"]))


def convert(folder, path):
    try:
        from optimum.exporters.openvino import main_export
    except ImportError as missing:
        say(refused=f"OpenVINO GenAI: {missing}; pip install optimum-intel to convert the model")
        sys.exit(0)
    main_export(folder, path, task="text-generation-with-past", convert_tokenizer=False)


class Runner:
    def __init__(self, path, dtype, threads):
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = 2
        scheduler.max_num_batched_tokens = 4096
        scheduler.enable_prefix_caching = False
        settings = {
            "INFERENCE_PRECISION_HINT": dtype,
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,
        }
        self._pipe = genai.ContinuousBatchingPipeline(str(path), scheduler, "CPU", settings)

    def run(self, prompts, tokens):
        config = genai.GenerationConfig()
        config.max_new_tokens = tokens
        config.set_eos_token_id(0)
        config.ignore_eos = True
        config.do_sample = False
        whole = time.perf_counter(), time.process_time()
        handles = [
            self._pipe.add_request(place, ov.Tensor(np.array([prompt], dtype=np.int64)), config)
            for place, prompt in enumerate(prompts)
        ]
        answers = [[] for _ in prompts]
        decode = whole
        while self._pipe.has_non_finished_requests():
            self._pipe.step()
            for place, handle in enumerate(handles):
                while handle.can_read():
                    for output in handle.read().values():
                        answers[place] += output.generated_ids
            if decode is whole and all(answers):
                decode = time.perf_counter(), time.process_time()
        end = time.perf_counter(), time.process_time()
        return {
            "tokens": answers,
            "whole_wall": end[0] - whole[0],
            "whole_cpu": end[1] - whole[1],
            "decode_wall": end[0] - decode[0],
            "decode_cpu": end[1] - decode[1],
        }


if __name__ == "__main__":
    main()
