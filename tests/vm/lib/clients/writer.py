"""Writes numbered rows one after the other, and afterwards looks for each row that was acknowledged."""

import asyncio

import report
import wire

PAUSE = 0.02


async def run(host: str, port: int, path: str) -> None:
    told, marks = report.until_told(), report.Marks()
    acknowledged: list[int] = []
    ends: list[str] = []
    ask = await wire.connect(host, port, "writer")
    await ask.query("CREATE TABLE IF NOT EXISTS journal (row bigint PRIMARY KEY)")
    await ask.close()
    report.write(path, {"ready": True})
    number, session = 0, None
    while not told.is_set():
        number += 1
        try:
            session = session or await wire.connect(host, port, "writer")
            await session.query(f"INSERT INTO journal VALUES ({number})")
        except (wire.Refused, wire.Lost) as why:
            # Whether this row is there nobody can say; the next one gets a number of its own.
            ends.append(str(why))
            if session is not None:
                session.drop()
            session = None
        else:
            acknowledged.append(number)
            marks.reached()
        await asyncio.sleep(PAUSE)
    found = await rows_there(host, port)
    missing = sorted(set(acknowledged) - found)
    report.write(
        path,
        {
            "acknowledged": len(acknowledged),
            "missing": missing,
            "sessions_ended": ends,
            "longest_gap": marks.longest,
        },
    )


async def rows_there(host: str, port: int) -> set[int]:
    session = await wire.connect(host, port, "writer")
    rows = await session.query("SELECT row FROM journal")
    await session.close()
    return {int(row) for (row,) in rows if row is not None}
