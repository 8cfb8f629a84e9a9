"""`python -m varve._dask`: what `varve campaign submit --dask ADDRESS` runs."""

from __future__ import annotations

import argparse
import sys

from . import VarveError, work_on


def main() -> int:
    parser = argparse.ArgumentParser(prog="varve campaign submit --dask")
    parser.add_argument("address", help="of a scheduler of Dask, as tcp://host:8786")
    parser.add_argument("--plan", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--shares", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--send", action="store_true", help="the workers see neither plan nor store")
    args = parser.parse_args()
    try:
        from distributed import Client
    except ImportError as error:
        print(f"varve: {error}; pip install distributed", file=sys.stderr)
        return 1
    try:
        client = Client(args.address, timeout="10s")
    except OSError as error:
        print(f"varve: no scheduler of Dask answers at {args.address}: {error}", file=sys.stderr)
        return 1
    with client:
        try:
            work_on(
                args.plan,
                args.store,
                client,
                shares=args.shares,
                workers=args.workers,
                shared=not args.send,
                progress=lambda line: print(line, flush=True),
            )
        except VarveError as error:
            print(f"varve: {error}", file=sys.stderr)
            return error.code
        except KeyboardInterrupt:
            print("varve: stopped; what was made is in the store, the same command goes on", file=sys.stderr)
            return 130
    print("all results are made: `varve campaign merge` puts them together")
    return 0


if __name__ == "__main__":
    sys.exit(main())
