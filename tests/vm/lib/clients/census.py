"""Asks one PostgreSQL server directly whether it is a replica, and how many clients sit on it."""

import json

import wire

CLIENTS = """
SELECT pg_is_in_recovery(), count(*)
FROM pg_stat_activity
WHERE application_name IN ('writer', 'connector', 'holder')
"""


async def run(host: str, port: int) -> None:
    session = await wire.connect(host, port, "census")
    ((replica, clients),) = await session.query(CLIENTS)
    await session.close()
    print(json.dumps({"replica": replica == "t", "clients": int(clients or 0)}))
