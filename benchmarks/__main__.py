"""Every benchmark, one after the other: `make bench`. Each also runs by itself."""

import runpy
import sys

BENCHMARKS = {
    "benchmarks.gateway": "the gateway beside nginx and the obvious handler",
    "benchmarks.wire": "our HTTP client beside httpx",
    "benchmarks.surface": "parsing requests, rendering answers",
    "benchmarks.experiment_overhead": "routing, breaker, experiment and recording",
    "benchmarks.request_instructions": "instructions per request, from socket to socket",
    "benchmarks.isolation": "what one hostile client costs the others",
    "benchmarks.redis_delay": "what a Redis that answers, hangs or is gone adds to a request",
    "benchmarks.engine.sampler": "the sampler beside transformers' warpers",
    "benchmarks.engine.decode": "the engine beside transformers' generate",
    "benchmarks.engine.batching": "the engine beside transformers' continuous batching",
    "benchmarks.engine.requests": "sampled requests, and eight at once, beside generate",
    "benchmarks.engine.native_peers": "the engine beside llama.cpp or OpenVINO GenAI",
    "benchmarks.engine.drafts": "prompt-lookup drafts on repetitive text",
    "benchmarks.engine.embedding": "the engine beside sentence-transformers' loop",
    "benchmarks.engine.gpu": "the engine on one large GPU",
}


def main() -> None:
    chosen = [name for name in BENCHMARKS if not sys.argv[1:] or name in sys.argv[1:]]
    if not chosen:
        raise SystemExit(f"choose from: {', '.join(BENCHMARKS)}")
    sys.argv[1:] = []
    for name in chosen:
        print(f"\n== {name}: {BENCHMARKS[name]}", flush=True)
        runpy.run_module(name, run_name="__main__")


if __name__ == "__main__":
    main()
