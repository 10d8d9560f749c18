"""Refusals and errors. Each has a stable code."""

from __future__ import annotations

# why: `typing` takes longer to import than the native module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._native import ApprovalRequest


class Rejected(Exception):
    """The gate refused a call; the tool did not run. Its text is the code and one fixed sentence, without arguments."""

    def __init__(
        self, code: str, message: str, retry: str, unlock: str | None, call_id: str, sequence: int | None
    ) -> None:
        super().__init__(code, message, retry, unlock, call_id, sequence)
        self.code: str = code
        self.message: str = message
        self.retry: str = retry
        """`never`, `after_change` or `after_approval`."""
        self.unlock: str | None = unlock
        """What would unlock the call."""
        self.call_id: str = call_id
        self.sequence: int | None = sequence
        """Number of the decision in the record; `None` if it is counted in a sum."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r})"


class ApprovalRequired(Rejected):
    """Only a person's approval is missing."""

    def __init__(
        self,
        code: str,
        message: str,
        retry: str,
        unlock: str | None,
        call_id: str,
        sequence: int | None,
        request: ApprovalRequest,
    ) -> None:
        super().__init__(code, message, retry, unlock, call_id, sequence)
        self.request: ApprovalRequest = request
        """For the person who is asked, never for the agent."""

    def __reduce__(self) -> tuple[type[ApprovalRequired], tuple[object, ...]]:
        return type(self), (*self.args, self.request)


class _Coded(Exception):
    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code: str = code

    def __str__(self) -> str:
        return ": ".join(str(part) for part in self.args)


class LoadError(_Coded):
    """A registry, key, log or store cannot be loaded."""


class SessionError(_Coded):
    """A session cannot be opened or ended."""


class AnswerError(_Coded):
    """An approval or denial does not count."""


class RequestError(_Coded, ValueError):
    """A text is not an approval request."""


