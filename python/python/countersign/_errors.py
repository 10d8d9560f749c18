"""Refusals and errors. Each has a stable code."""

from __future__ import annotations

# why: `typing` takes longer to import than the native module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._native import ApprovalRequest


class Rejected(Exception):
    """The gate refused a call; the tool did not run. Its text is the code and one fixed sentence, without arguments."""

    if TYPE_CHECKING:

        def __init__(
            self, code: str, message: str, retry: str, unlock: str | None, call_id: str, sequence: int | None
        ) -> None: ...

    # why: each value is one of the arguments of the exception, which is then made without any code of Python.

    @property
    def code(self) -> str:
        """The stable code."""
        code: str = self.args[0]
        return code

    @property
    def message(self) -> str:
        """One fixed sentence for the agent."""
        message: str = self.args[1]
        return message

    @property
    def retry(self) -> str:
        """`never`, `after_change` or `after_approval`."""
        retry: str = self.args[2]
        return retry

    @property
    def unlock(self) -> str | None:
        """What would unlock the call."""
        unlock: str | None = self.args[3]
        return unlock

    @property
    def call_id(self) -> str:
        """The call's id as it came."""
        call_id: str = self.args[4]
        return call_id

    @property
    def sequence(self) -> int | None:
        """Number of the decision in the record; `None` if it is counted in a sum."""
        sequence: int | None = self.args[5]
        return sequence

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r})"


class ApprovalRequired(Rejected):
    """Only a person's approval is missing."""

    if TYPE_CHECKING:

        def __init__(
            self,
            code: str,
            message: str,
            retry: str,
            unlock: str | None,
            call_id: str,
            sequence: int | None,
            request: ApprovalRequest,
        ) -> None: ...

    @property
    def request(self) -> ApprovalRequest:
        """For the person who is asked, never for the agent."""
        request: ApprovalRequest = self.args[6]
        return request


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


