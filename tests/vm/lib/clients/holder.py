"""Holds sessions open, some of them always busy, and notices each one that ends or answers wrongly."""

import asyncio
import time
from collections.abc import Awaitable

import report
import wire

# A long answer of known content, which takes its time: a byte lost or doubled on the way shows.
ROWS = 2000
LONG = f"""
SELECT n
FROM generate_series(1, {ROWS}) AS n,
    LATERAL (SELECT pg_sleep(CASE WHEN n % 100 = 0 THEN 0.05 ELSE 0 END)) AS slowly
"""


async def run(host: str, port: int, path: str, idle: int, busy: int) -> None:
    told = report.until_told()
    ends: list[dict] = []
    answers = [0]
    tasks = []
    for number in range(idle + busy):
        session = await wire.connect(host, port, "holder")
        stay = rest(session, told) if number < idle else work(session, told, answers)
        tasks.append(asyncio.create_task(watch(session, stay, ends)))
    report.write(path, {"ready": True})
    await told.wait()
    # Who hears nothing more has neither ended nor been served.
    _, stuck = await asyncio.wait(tasks, timeout=30)
    said = {
        "held": len(tasks),
        "ended": ends,
        "answers": answers[0],
        "unanswered": len(stuck),
    }
    report.write(path, said)


async def watch(
    session: wire.Session, stay: Awaitable[str | None], ends: list[dict]
) -> None:
    try:
        why = await stay
    except (wire.Refused, wire.Lost) as end:
        why = str(end)
    if why is None:
        await session.close()
    else:
        ends.append({"why": why, "at": time.time()})
        session.drop()


async def rest(session: wire.Session, told: asyncio.Event) -> str | None:
    ended = asyncio.create_task(session.ended())
    enough = asyncio.create_task(told.wait())
    await asyncio.wait({ended, enough}, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        return ended.result()
    ended.cancel()
    await asyncio.wait({ended})
    # Silence alone does not tell that it is alive.
    return None if await session.query("SELECT 1") == [["1"]] else "a wrong answer"


async def work(
    session: wire.Session, told: asyncio.Event, answers: list[int]
) -> str | None:
    wanted = [[str(n)] for n in range(1, ROWS + 1)]
    await session.query("BEGIN")
    while not told.is_set():
        if await session.query(LONG) != wanted:
            return "a wrong answer"
        answers[0] += 1
    await session.query("COMMIT")
    return None
