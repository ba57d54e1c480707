"""What a script of a NixOS test may use, by its types: put before the script when that is type-checked."""

from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple


class Machine:
    name: str

    def start(self, allow_reboot: bool = False) -> None: ...
    def shutdown(self) -> None: ...
    def reboot(self) -> None: ...
    def crash(self) -> None: ...
    def block(self) -> None: ...
    def unblock(self) -> None: ...
    def wait_for_shutdown(self) -> None: ...
    def sleep(self, secs: int) -> None: ...
    def log(self, msg: str) -> None: ...

    def execute(
        self,
        command: str,
        check_return: bool = True,
        check_output: bool = True,
        timeout: Optional[int] = 900,
    ) -> Tuple[int, str]:
        raise NotImplementedError

    def succeed(self, *commands: str, timeout: Optional[int] = None) -> str:
        raise NotImplementedError

    def fail(self, *commands: str, timeout: Optional[int] = None) -> str:
        raise NotImplementedError

    def wait_until_succeeds(self, command: str, timeout: int = 900) -> str:
        raise NotImplementedError

    def wait_until_fails(self, command: str, timeout: int = 900) -> str:
        raise NotImplementedError

    def wait_for_unit(
        self, unit: str, user: Optional[str] = None, timeout: int = 900
    ) -> None: ...

    def wait_for_file(self, filename: str, timeout: int = 900) -> None: ...

    def wait_for_open_port(
        self, port: int, addr: str = "localhost", timeout: int = 900
    ) -> None: ...

    def wait_for_closed_port(
        self, port: int, addr: str = "localhost", timeout: int = 900
    ) -> None: ...

    def wait_for_open_unix_socket(
        self, addr: str, is_datagram: bool = False, timeout: int = 900
    ) -> None: ...

    def systemctl(self, q: str, user: Optional[str] = None) -> Tuple[int, str]:
        raise NotImplementedError

    def start_job(self, jobname: str, user: Optional[str] = None) -> Tuple[int, str]:
        raise NotImplementedError

    def stop_job(self, jobname: str, user: Optional[str] = None) -> Tuple[int, str]:
        raise NotImplementedError

    def get_unit_info(self, unit: str, user: Optional[str] = None) -> Dict[str, str]:
        raise NotImplementedError

    def get_unit_property(
        self, unit: str, property: str, user: Optional[str] = None
    ) -> str:
        raise NotImplementedError

    def require_unit_state(self, unit: str, require_state: str = "active") -> None: ...

    def copy_from_host(self, source: str, target: str) -> None: ...


start_all: Callable[[], None]
subtest: Callable[[str], ContextManager[None]]
retry: Callable[..., None]
machines: List[Machine]
log: Any
