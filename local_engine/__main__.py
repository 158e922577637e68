"""Start the engine process with garbage collection off while its modules load.

torch and transformers import some 1,700 modules whose objects all stay alive. Collections during
the import free nothing and took 8 % of the loading time.
"""

import gc
import sys

from strowger_gateway.local_engine.loading.lean_imports import import_lean
from strowger_gateway.local_engine.start import UNSERVABLE, read_start, report
from strowger_gateway.schemas.errors import InvalidConfig


def run(arguments: list[str]) -> int:
    gc.disable()
    try:
        start = read_start(arguments)
    except InvalidConfig as exc:
        report(str(exc))
        return UNSERVABLE
    try:
        import_lean()
        from strowger_gateway.local_engine.process import main
    except ModuleNotFoundError as exc:
        package = (exc.name or "").partition(".")[0]
        if package not in ("torch", "transformers"):
            raise
        sys.stderr.write(f"needs {package}: pip install 'strowger-gateway[local]'\n")
        return 1
    return main(start)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
