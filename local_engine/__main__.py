"""Starts the engine process without garbage collections while its modules load.

torch and transformers bring some 2,500 modules, whose objects all stay: the collector would look
through them again and again and find nothing, which took 8 % of their loading.
"""

import gc
import sys


def run(arguments: list[str]) -> int:
    gc.disable()
    from local_engine.process import main

    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
