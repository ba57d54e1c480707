"""Opens new connections at a steady rate, asks each one question, and counts those that fail."""

import asyncio
import time

import report
import wire

# So many are under way at a time: a machine that is too busy for the rate slows this down, and fills up nobody.
AT_ONCE = 250


class Count:
    def __init__(self) -> None:
        self.opened = 0
        self.refused: list[str] = []
        self.lost: list[str] = []
        self.read_only = 0
        self.longest = 0.0
        # Sessions that were ended for being idle, when it was this program that was held up.
        self.dawdled: list[str] = []
        self.held_up = float("-inf")


async def run(host: str, port: int, path: str, rate: float) -> None:
    told, count = report.until_told(), Count()
    under_way: set[asyncio.Task] = set()
    begun = time.monotonic()
    started, is_ready = 0, False
    while not told.is_set():
        # What was delayed is made up for.
        due = (time.monotonic() - begun) * rate
        while started < due and len(under_way) < AT_ONCE:
            started += 1
            task = asyncio.create_task(visit(host, port, count))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        if count.opened and not is_ready:
            report.write(path, {"ready": True})
            is_ready = True
        slept = time.monotonic()
        await asyncio.sleep(1 / rate)
        if time.monotonic() - slept - 1 / rate > 0.5:
            count.held_up = time.monotonic()
    seconds = time.monotonic() - begun
    if under_way:
        await asyncio.wait(under_way, timeout=60)
    report.write(
        path,
        {
            "opened": count.opened,
            "rate": count.opened / seconds,
            "refused": count.refused,
            "lost": count.lost,
            "read_only": count.read_only,
            "unanswered": len(under_way),
            "longest_wait": count.longest,
            "dawdled": count.dawdled,
        },
    )


async def visit(host: str, port: int, count: Count) -> None:
    asked = time.monotonic()
    try:
        session = await wire.connect(host, port, "connector")
    except (wire.Refused, wire.Lost) as why:
        count.refused.append(str(why))
        return
    count.opened += 1
    count.longest = max(count.longest, time.monotonic() - asked)
    try:
        ((answer,),) = await session.query("SELECT pg_is_in_recovery()")
    except (wire.Refused, wire.Lost) as why:
        dawdled = "57P01" in str(why) and time.monotonic() - count.held_up < 2
        (count.dawdled if dawdled else count.lost).append(str(why))
        return
    count.read_only += answer != "f"
    await session.close()
