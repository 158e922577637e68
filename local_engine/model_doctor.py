"""`python -m strowger_gateway.local_engine.model_doctor`: start an engine's models on trial, in
their own process.

Reads an `EngineConfig` from stdin, prints a `Diagnosis` to stdout.
"""

import sys

import msgspec

from strowger_gateway.local_engine.config import EngineConfig
from strowger_gateway.local_engine.loading.lean_imports import import_lean


def main() -> int:
    config = msgspec.json.decode(sys.stdin.buffer.read(), type=EngineConfig)
    import_lean()
    from strowger_gateway.local_engine.model_trial import diagnose

    sys.stdout.buffer.write(msgspec.json.encode(diagnose(config)) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
