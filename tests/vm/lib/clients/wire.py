"""A small PostgreSQL client: logs in where nobody asks for a password, and runs simple queries."""

import asyncio
import struct


class Refused(Exception):
    """The server said FATAL or ERROR."""


class Lost(Exception):
    """The connection ended, or was never made."""


class Session:
    """One logged-in connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer

    async def query(self, sql: str) -> list[list[str | None]]:
        """The rows of one statement."""
        text = sql.encode() + b"\0"
        await self._send(b"Q" + struct.pack("!i", len(text) + 4) + text)
        return await self._until_ready()

    async def close(self) -> None:
        """Says goodbye as a well-behaved client does."""
        try:
            await self._send(b"X" + struct.pack("!i", 4))
        except Lost:
            pass
        self._writer.close()

    def drop(self) -> None:
        """Leaves without a word."""
        self._writer.transport.abort()

    async def ended(self) -> str:
        """Waits for the end of a session that asks nothing, and says how it came."""
        try:
            await self._until_ready()
        except (Refused, Lost) as why:
            return str(why)
        return "a ReadyForQuery nobody asked for"

    async def _send(self, message: bytes) -> None:
        try:
            self._writer.write(message)
            await self._writer.drain()
        except OSError as why:
            raise Lost(repr(why)) from why

    async def _until_ready(self) -> list[list[str | None]]:
        rows, refusal = [], None
        while True:
            kind, body = await self._message()
            if kind == b"D":
                rows.append(_columns(body))
            elif kind == b"E":
                words = _words(body)
                refusal = Refused(words)
                if words.startswith(("FATAL", "PANIC")):
                    raise refusal
            elif kind == b"Z":
                if refusal is not None:
                    raise refusal
                return rows

    async def _message(self) -> tuple[bytes, bytes]:
        try:
            head = await self._reader.readexactly(5)
            body = await self._reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
        except (OSError, asyncio.IncompleteReadError) as why:
            raise Lost(repr(why)) from why
        return head[:1], body


async def connect(host: str, port: int, name: str) -> Session:
    """Connects and logs in; returns with the first ReadyForQuery."""
    try:
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    except OSError as why:
        raise Lost(repr(why)) from why
    session = Session(reader, writer)
    pairs = {"user": "postgres", "database": "postgres", "application_name": name}
    text = b"".join(f"{key}\0{value}\0".encode() for key, value in pairs.items())
    try:
        await session._send(struct.pack("!ii", len(text) + 9, 3 << 16) + text + b"\0")
        await session._until_ready()
    except BaseException:
        session.drop()
        raise
    return session


def _columns(body: bytes) -> list[str | None]:
    (count,), at, columns = struct.unpack_from("!h", body), 2, []
    for _ in range(count):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        columns.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return columns


def _words(body: bytes) -> str:
    fields = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
    return " ".join(fields.get(key, "") for key in (b"V", b"C", b"M"))
