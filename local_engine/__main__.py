"""Start the engine process with garbage collection off while its modules load.

torch and transformers import some 2,500 modules whose objects all stay alive. Collections during
the import free nothing and took 8 % of the loading time.
"""

import gc
import sys


def run(arguments: list[str]) -> int:
    gc.disable()
    try:
        from local_engine.process import main
    except ModuleNotFoundError as exc:
        package = (exc.name or "").partition(".")[0]
        if package not in ("torch", "transformers"):
            raise
        sys.stderr.write(f"needs {package}: pip install strowger-gateway[local]\n")
        return 1
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
