"""Run all benchmarks in sequence: `make bench`. Each also runs on its own."""

import runpy
import sys

BENCHMARKS = {
    "benchmarks.gateway": "the gateway compared with nginx and a minimal handler",
    "benchmarks.wire": "our HTTP client compared with httpx",
    "benchmarks.surfaces": "every surface compared with a plain chat",
    "benchmarks.surface": "parsing requests, rendering answers",
    "benchmarks.experiment_overhead": "routing, breaker, experiment and recording",
    "benchmarks.guardrails": "50 patterns over 1,000 tokens, whole and streamed",
    "benchmarks.request_instructions": "instructions per request, from socket to socket",
    "benchmarks.isolation": "what one hostile client or backend costs the others",
    "benchmarks.fleet": "gateways and replicas in virtual time",
    "benchmarks.capacity": "records per second into a database, memory per stream",
    "benchmarks.redis_delay": "latency that a healthy, hanging or missing Redis adds",
    "benchmarks.engine.sampler": "the sampler compared with transformers' warpers",
    "benchmarks.engine.decode": "the engine compared with transformers' generate",
    "benchmarks.engine.batching": "the engine compared with transformers' continuous batching",
    "benchmarks.engine.requests": "sampled and concurrent requests compared with generate",
    "benchmarks.engine.native_peers": "the engine compared with llama.cpp or OpenVINO GenAI",
    "benchmarks.engine.earlier": "the engine compared with that of an earlier checkout",
    "benchmarks.engine.drafts": "prompt-lookup drafts on repetitive text",
    "benchmarks.engine.embedding": "embeddings compared with sentence-transformers' loop",
    "benchmarks.engine.remote": "the engine over TCP with mutual TLS compared with its socket",
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
