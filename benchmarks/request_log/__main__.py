"""What views of a full store of requests take, by filter.

`python -m benchmarks.request_log [--requests 1000000] [--store URL] [--rounds 3]`: makes a store in
a temporary folder, or in the empty database at the URL, and prints milliseconds by filter: of the
first page with totals, and of the second, in several spans of time, the fastest of all rounds.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.request_log.made_up import fill
from benchmarks.request_log.views import timed
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.request_log.search import RequestSearch
from strowger_gateway.schemas.secret import Secret


def main() -> None:
    words = argparse.ArgumentParser(prog="python -m benchmarks.request_log", description=__doc__)
    words.add_argument("--requests", type=int, default=1_000_000)
    words.add_argument("--store", default="", help="of an empty database, or one of this program")
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--slowest", action="store_true", help="print the slowest view of each")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.store or f"sqlite:///{Path(folder, 'store.db')}"
        store = open_store(Secret(url))
        try:
            search = RequestSearch(store.database)
            if search.newest_batch() == 0:
                began = time.perf_counter()
                fill(store, given.requests)
                print(f"filled in {time.perf_counter() - began:.0f} s")
            print(f"{'filter':<24} {'p50 ms':>8} {'p95 ms':>8} {'max ms':>8}")
            for one in timed(search, given.rounds):
                figures = [1e3 * one.quantile(share) for share in (0.5, 0.95, 1.0)]
                print(f"{one.name:<24}" + "".join(f" {figure:>8.1f}" for figure in figures))
                if given.slowest:
                    print(f"  {one.slowest}")
        finally:
            store.close()


if __name__ == "__main__":
    main()
