"""Native part of the package `countersign`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, TypeVar, final

from ._errors import Rejected

__all__ = ["ApprovalRequest", "Approvals", "Call", "Countersign", "Gate", "Log", "Proposals", "digest", "settle", "testing_gate", "testing_rust_calls"]

_T = TypeVar("_T")
_Path = str | PathLike[str]
_Args = bytes | str | dict[str, Any]

def digest(args: _Args) -> str: ...
def settle() -> None: ...
def testing_gate(
    draft: str,
    agent: str,
    *,
    session: str,
    principal: str,
    goal: str | None = None,
    proposals: Proposals | None = None,
    checks: Mapping[str, Callable[[str, dict[str, Any]], str | bool | None]] | None = None,
    fault: str | None = None,
) -> Gate: ...
def testing_rust_calls(gate: Gate, prefix: str, name: str, args: bytes, count: int) -> None: ...
@final
class Countersign:
    @staticmethod
    def load(registry: _Path, trust_root: _Path, *, state: _Path) -> Countersign: ...
    def session(
        self,
        agent: str,
        *,
        session: str,
        principal: str,
        goal: str | None = None,
        record: Log,
        approvals: Approvals | None = None,
        proposals: Proposals | None = None,
        checks: Mapping[str, Callable[[str, dict[str, Any]], str | bool | None]] | None = None,
    ) -> Gate: ...

@final
class Log:
    def __new__(cls, folder: _Path, *, key: _Path, origin: str, durability: str = "group") -> Log: ...
    def checkpoint(self) -> str: ...

@final
class Approvals:
    def __new__(cls, *, key: _Path, store: _Path, audience: str) -> Approvals: ...

@final
class Proposals:
    def __new__(
        cls,
        *,
        audience: str,
        keys: _Path | None = None,
        folder: _Path | None = None,
        policy: _Path | None = None,
        profile: str = "strict",
        max_attestation_age: float | str | None = None,
    ) -> Proposals: ...

@final
class ApprovalRequest:
    @staticmethod
    def from_json(text: str) -> ApprovalRequest: ...
    def to_json(self) -> str: ...
    @property
    def call_id(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def session(self) -> str | None: ...
    @property
    def principal(self) -> str: ...
    @property
    def args(self) -> dict[str, Any]: ...
    @property
    def args_digest(self) -> str: ...

@final
class Call:
    @property
    def call_id(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def args(self) -> Mapping[str, Any]: ...
    @property
    def args_digest(self) -> str: ...
    def run(self, fn: Callable[..., _T]) -> _T: ...
    def arun(self, fn: Callable[..., Awaitable[_T]]) -> Awaitable[_T]: ...
    def _start(self) -> dict[str, Any]: ...
    def _finish(self, outcome: str) -> None: ...
    def _abandon(self) -> None: ...
    def __enter__(self) -> dict[str, Any]: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool: ...
    def __aenter__(self) -> Awaitable[dict[str, Any]]: ...
    def __aexit__(self, *args: Any) -> Awaitable[bool]: ...

@final
class _Prepared: ...

@final
class Gate:
    def check(
        self,
        call_id: str,
        name: str,
        args: _Args,
        server: str | None = None,
        ask: str | None = None,
        approval: str | Sequence[str] | None = None,
        proposal: _Args | None = None,
        rerun: bool = False,
    ) -> Call: ...
    def acheck(
        self,
        call_id: str,
        name: str,
        args: _Args,
        server: str | None = None,
        ask: str | None = None,
        approval: str | Sequence[str] | None = None,
        proposal: _Args | None = None,
        rerun: bool = False,
    ) -> Awaitable[Call]: ...
    @staticmethod
    def _prepare(
        call_id: str,
        name: str,
        args: _Args,
        server: str | None = None,
        ask: str | None = None,
        approval: str | Sequence[str] | None = None,
        proposal: _Args | None = None,
        rerun: bool = False,
    ) -> _Prepared: ...
    def _decide(self, prepared: Sequence[_Prepared]) -> list[Call | Rejected]: ...
    def _refuse(self, call_id: str, name: str, reason: str, *, is_reused: bool) -> Rejected: ...
    def approve(self, request: ApprovalRequest, operator: str, ttl: float | str) -> str: ...
    def deny(self, request: ApprovalRequest, person: str) -> Rejected: ...
    def present(self, token: str) -> None: ...
    def observe(self, raw: _Args) -> Rejected | None: ...
    def acceptance_rate(self) -> float | None: ...
    @property
    def takes_proposals(self) -> bool: ...
    def attempted_undisclosed(self) -> int: ...
    def decisions(self) -> list[dict[str, Any]]: ...
    def note_definition(self, server: str, definition: _Args) -> None: ...
    def close(self) -> None: ...
