"""One decision and one run per call id, for every adapter. What runs is what was decided."""

from __future__ import annotations

import json
import sys
import threading
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .._async import in_pool
from .._errors import Rejected
from .._native import digest

if TYPE_CHECKING:
    from countersign import Call, Gate

Key = tuple[str, str, str]
"""Id, tool and digest of the arguments of a call."""

KEPT = 1_024
"""Number of calls per gate whose result, refusal or first digest is kept."""

SETTLED = 30
"""Seconds for which a try waits for the decision about a cancelled one."""

RESERVED = ("__pic", "__pic_request_id")
"""Members of the arguments that are for the gate. The tool never sees them."""


class OpenSchemaWarning(UserWarning):
    """The host may change arguments after the decision, and the tool's schema does not forbid it."""


@dataclass(frozen=True)
class Kept:
    """How an earlier try of the same call ended."""

    result: Any = None
    refusal: Rejected | None = None

    def get(self) -> Any:
        if self.refusal is not None:
            raise self.refusal
        return self.result


class Calls:
    """Calls of one gate, by id."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self.kept: OrderedDict[Key, Kept] = OrderedDict()
        self.busy: set[str] = set()
        self.started: OrderedDict[str, Call] = OrderedDict()
        """Calls that the host runs itself. The outcome of one that it gives up is unknown."""
        self.deciding: dict[str, threading.Event] = {}
        """Checks in a thread, whose caller may have been cancelled."""

    def note(self, key: Key) -> bool:
        """Keeps the tool and arguments with which an id was first seen. Returns `False` if they differ now."""
        first = self.seen.setdefault(key[0], key[1:])
        _trim(self.seen)
        return first == key[1:]

    def begin(self, id: str) -> Callable[[], None]:
        """Notes a check in a thread. Returns the function that notes its end."""
        event = self.deciding[id] = threading.Event()

        def ended() -> None:
            self.deciding.pop(id, None)
            event.set()

        return ended

    def start(self, id: str, call: Call) -> None:
        with self.lock:
            self.busy.discard(id)
            self.started[id] = call
            given_up = [self.started.popitem(last=False)[1]] if len(self.started) > KEPT else []
        for call in given_up:
            call._abandon()

    def claim(self, key: Key) -> Kept | str | None:
        """Claims an id for one try. Returns how an earlier one ended, or why there is no other try now.

        Whether the id has run is the gate's question.
        """
        with self.lock:
            if kept := self.kept.get(key):
                return kept
            if not self.note(key):
                return "the call differs from the one first seen under its id"
            if key[0] in self.busy:
                return "a call of this id is running"
            self.busy.add(key[0])
            return None

    def keep(self, key: Key, kept: Kept) -> None:
        with self.lock:
            self.kept[key] = kept
            _trim(self.kept)


_calls: WeakKeyDictionary[Gate, Calls] = WeakKeyDictionary()
_calls_lock = threading.Lock()


def calls_of(gate: Gate) -> Calls:
    with _calls_lock:
        return _calls.setdefault(gate, Calls())


def _trim(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > KEPT:
        kept.popitem(last=False)


class _Ticket:
    """Permission for one run inside a place that has decided already."""

    def __init__(self, gate: Gate, key: Key) -> None:
        self.gate, self.key, self.lock = gate, key, threading.Lock()

    def take(self, gate: Gate, key: Key) -> bool:
        return self.gate is gate and self.key == key and self.lock.acquire(blocking=False)


_ticket: ContextVar[_Ticket | None] = ContextVar("countersign_ticket", default=None)


def check_gate(gate: Gate) -> Gate:
    """Raises `ValueError` for a gate that judges no proposals: each call would pass without one."""
    if not gate.takes_proposals:
        raise ValueError("the gate takes no action proposals: open its session with `proposals=`")
    return gate


@dataclass(frozen=True)
class Host:
    """Gate of a host, with what its author said about the tools."""

    gate: Gate
    server: str | None = None
    """Server that the registry names for these tools; needed if two servers have tools of one name."""
    reruns: frozenset[str] = frozenset()
    """Tools that pause from inside, and so run once more under the same id."""

    def run(self, call_id: str, name: str, args: Any, tool: Callable[[dict[str, Any]], Any], *,
            tokens: Iterable[str] = (), arrived: Mapping[str, Any] | None = None) -> Any:
        """Decides about a call and runs it. Returns the tool's result, or that of an equal call before. Raises `Rejected`."""
        attempt = _Attempt(self, call_id, name, args, arrived)
        if attempt.kept is not None:
            return attempt.kept.get()
        if attempt.is_decided:
            return tool(plain(args))
        try:
            call = self.gate.check(call_id, name, args, self.server, approval=list(tokens) or None, rerun=name in self.reruns)
            attempt.accepted()
            with call as decided, attempt:
                result = tool(decided)
        except BaseException as error:
            raise attempt.refusal(error) from error.__cause__
        return attempt.returned(result)

    async def arun(self, call_id: str, name: str, args: Any, tool: Callable[[dict[str, Any]], Awaitable[Any]], *,
                   tokens: Iterable[str] = (), arrived: Mapping[str, Any] | None = None) -> Any:
        """As `run`, for an async tool."""
        await self._settled(call_id)
        attempt = _Attempt(self, call_id, name, args, arrived)
        if attempt.kept is not None:
            return attempt.kept.get()
        if attempt.is_decided:
            return await tool(plain(args))
        try:
            call = await self._acheck(attempt, args, tokens)
            async with call as decided:
                with attempt:
                    result = await tool(decided)
        except BaseException as error:
            raise attempt.refusal(error) from error.__cause__
        return attempt.returned(result)

    async def _settled(self, call_id: str) -> None:
        """Waits for the decision about a cancelled try: its refusal answers the next one."""
        if (earlier := calls_of(self.gate).deciding.get(call_id)) is not None:
            await in_pool(earlier.wait, SETTLED)

    async def _acheck(self, attempt: _Attempt, args: Any, tokens: Iterable[str] = ()) -> Call:
        call_id, name, _ = attempt.key

        def check() -> Call:
            try:
                return self.gate.check(call_id, name, args, self.server, approval=list(tokens) or None, rerun=name in self.reruns)
            except Exception as error:
                # why: a refusal is kept here, in the thread, so that a host that cancels its wait meets it again on its next try.
                raise attempt.refusal(error) from error.__cause__

        call: Call = await in_pool(check, left=lambda call: call._abandon(), ended=attempt.calls.begin(call_id))
        attempt.accepted()
        return call

    async def begin(self, call_id: str, name: str, args: Any, *, tokens: Iterable[str] = (),
                    arrived: Mapping[str, Any] | None = None) -> None:
        """Decides about a call that the host runs itself, and starts it. Raises `Rejected`, also for a repeat of a call that ran."""
        await self._settled(call_id)
        attempt = _Attempt(self, call_id, name, args, arrived)
        if attempt.kept is not None:
            attempt.kept.get()
            raise self.refuse(attempt.key, "a call of this id has run", is_reused=True)
        try:
            call = await self._acheck(attempt, args, tokens)
            await in_pool(call._start)
        except BaseException as error:
            raise attempt.refusal(error) from error.__cause__
        attempt.calls.start(call_id, call)

    def end(self, call_id: str, outcome: str = "returned") -> None:
        """Records how a call which `begin` started has ended: `returned`, `failed`, or else unknown."""
        if (call := calls_of(self.gate).started.pop(call_id, None)) is not None:
            call._finish(outcome)

    def note(self, call_id: str | None, name: str, args: Any, *, is_known: bool = True) -> None:
        """Looks at a call in the model's output. A name that the host does not know is recorded as undisclosed, once."""
        if not isinstance(call_id, str):
            return
        calls, key = calls_of(self.gate), key_of(call_id, name, args)
        with calls.lock:
            calls.note(key)
            is_new = key not in calls.kept
        if is_new and not is_known:
            refusal = self.gate.observe({"id": call_id, "name": name, "arguments": {}})
            if refusal is not None:
                calls.keep(key, Kept(refusal=refusal))

    def block(self, call_id: str, name: str, args: Any) -> Rejected:
        """Records the call of a tool that is not gated: as undisclosed, or, if the session has a tool of that name, as malformed."""
        self.note(call_id, name, args, is_known=False)
        key = key_of(call_id, name, args)
        kept = calls_of(self.gate).kept.get(key)
        return kept.refusal if kept is not None and kept.refusal is not None else self.refuse(key, "the tool is not gated")

    def refuse(self, key: Key, reason: str, *, is_reused: bool = False) -> Rejected:
        """Records the refusal of a call that does not come to the gate; once per call."""
        calls = calls_of(self.gate)
        kept = calls.kept.get((*key[:2], f"{key[2]} {reason}"))
        if kept is not None and kept.refusal is not None:
            return kept.refusal
        try:
            refusal = self.gate._refuse(key[0], key[1], reason, is_reused=is_reused)
        except Exception as error:
            refusal = as_rejected(error, key[0])
        calls.keep((*key[:2], f"{key[2]} {reason}"), Kept(refusal=refusal))
        return refusal

    def tell(self, tools: str) -> None:
        """Tells the gate the definitions of a `tools/list` result."""
        if self.server is not None:
            for tool in json.loads(tools)["tools"]:
                self.gate.note_definition(self.server, json.dumps(tool))


class _Attempt:
    """One try of a call: claims its id, and gives it back if the gate refuses."""

    def __init__(self, host: Host, call_id: str, name: str, args: Any, arrived: Mapping[str, Any] | None) -> None:
        self.key, self.calls = key_of(call_id, name, args), calls_of(host.gate)
        self.host, self.kept, self.is_accepted = host, None, False
        if arrived is not None and not is_same(args, arrived):
            raise host.refuse(self.key, "the host changed an argument")
        ticket = _ticket.get()
        self.is_decided = ticket is not None and ticket.take(host.gate, self.key)
        if not self.is_decided:
            claimed = self.calls.claim(self.key)
            if isinstance(claimed, str):
                raise host.refuse(self.key, claimed, is_reused=True)
            self.kept = claimed

    def accepted(self) -> None:
        self.is_accepted = True

    def __enter__(self) -> None:
        self._outer = _ticket.set(_Ticket(self.host.gate, self.key))

    def __exit__(self, *_: object) -> None:
        _ticket.reset(self._outer)
        self._release()

    def _release(self) -> None:
        with self.calls.lock:
            self.calls.busy.discard(self.key[0])

    def refusal(self, error: BaseException) -> BaseException:
        """Returns the tool's own exception, or the refusal for any failure before the tool began."""
        self._release()
        if self.is_accepted or not isinstance(error, Exception):
            return error
        refusal = as_rejected(error, self.key[0])
        if refusal.retry != "after_approval":
            self.calls.keep(self.key, Kept(refusal=refusal))
        return refusal

    def returned(self, result: Any) -> Any:
        self.calls.keep(self.key, Kept(result))
        return result


def key_of(call_id: str, name: str, args: Any) -> Key:
    try:
        return call_id, name, digest(args)
    except Exception:
        # The gate refuses such arguments, and says why on record.
        return call_id, name, "unreadable"


def as_rejected(error: Exception, call_id: str) -> Rejected:
    """Returns the refusal for any exception: none is an allow."""
    if isinstance(error, Rejected):
        return error
    return Rejected("INTERNAL", "an internal error; the call did not run", "never", None, call_id, None)


def text_of(refusal: Rejected) -> str:
    """Returns the text for the model: code, fixed sentence and remedy, without arguments."""
    help_ = f" What would help: {refusal.unlock}." if refusal.unlock else ""
    return f"Refused by Countersign: {refusal.code}. {refusal.message}.{help_}"


def fresh_id() -> str:
    """Returns an id for a call to which the host gives none."""
    return f"local-{uuid.uuid4().hex}"


def plain(args: Any) -> dict[str, Any]:
    """Returns a fresh copy of arguments that are JSON text or a mapping of JSON values."""
    copy: dict[str, Any] = json.loads(args if isinstance(args, (str, bytes)) else json.dumps(args))
    return copy


def is_same(sent: Any, arrived: Mapping[str, Any]) -> bool:
    """Whether every member that was sent arrives with its value. Defaults may be added; 5 and 5.0 are one value."""
    try:
        sent = plain(sent)
    except Exception:
        # The gate refuses such arguments.
        return True
    pydantic = sys.modules.get("pydantic_core")
    sent = {name: value for name, value in sent.items() if name not in RESERVED} if isinstance(sent, dict) else sent
    values = {name: pydantic.to_jsonable_python(value) if pydantic and name in sent else value
              for name, value in arrived.items()}
    return _is_same(sent, values)


def _is_same(sent: Any, arrived: Any) -> bool:
    if isinstance(sent, dict):
        return isinstance(arrived, Mapping) and all(
            name in arrived and _is_same(value, arrived[name]) for name, value in sent.items())
    if isinstance(sent, list):
        return isinstance(arrived, (list, tuple)) and len(sent) == len(arrived) and all(map(_is_same, sent, arrived))
    if isinstance(sent, bool) or isinstance(arrived, bool) or not isinstance(sent, (int, float)):
        return type(sent) is type(arrived) and bool(sent == arrived)
    return isinstance(arrived, (int, float)) and sent == arrived


_warned: set[str] = set()


def warn_if_open(name: str, schema: Any) -> None:
    """Warns once per tool whose schema lets a host convert or drop arguments after the decision."""
    if name not in _warned and not _is_closed(schema):
        _warned.add(name)
        warnings.warn(f"the host may change arguments of `{name}` after the decision: close its schema, or wrap the tool",
                      OpenSchemaWarning, stacklevel=3)


def _is_closed(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        is_open = "properties" in schema and schema.get("additionalProperties") is not False
        return not is_open and all(map(_is_closed, schema.values()))
    return not isinstance(schema, list) or all(map(_is_closed, schema))


def tokens_in(answer: Any, call_id: str) -> list[str] | None:
    """Returns the tokens for a call in a host's answer: a token, or tokens by call id. `None` if the answer is for other calls."""
    if isinstance(answer, Mapping):
        if call_id not in answer:
            return None
        answer = answer[call_id]
    if isinstance(answer, str):
        return [answer]
    return [token for token in answer if isinstance(token, str)] if isinstance(answer, (list, tuple)) else []
