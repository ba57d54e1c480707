"""The client programs of the scenarios: `python3 clients writer HOST PORT FILE` and its like."""

import asyncio
import sys

import census
import connector
import holder
import wire
import writer


def main() -> None:
    program, host, port, *more = sys.argv[1:]
    at = (host, int(port))
    match program, more:
        case "writer", [path]:
            work = writer.run(*at, path)
        case "connector", [path, rate]:
            work = connector.run(*at, path, float(rate))
        case "holder", [path, idle, busy]:
            work = holder.run(*at, path, int(idle), int(busy))
        case "census", []:
            work = census.run(*at)
        case _:
            sys.exit(__doc__)
    try:
        asyncio.run(work)
    except (wire.Refused, wire.Lost) as why:
        sys.exit(f"{program}: {why}")


main()
