"""One application at one place: inputs to callbacks, and what these ask for back. Pure, as far as its author is."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from elf.agents.extensions.application_contract import (
    Answered,
    ApplicationError,
    Asked,
    Closed,
    Effect,
    Heard,
    Input,
    Received,
    Reply,
    Rung,
    Started,
)
from elf.agents.extensions.application_declaration import Application, Elf
from elf.agents.language.installed.entry_points import brief
from elf.agents.wire.application_messages import Role, packed, unpacked
from elf.cbt.foreign import is_theirs


class Instance:
    """One application at one place; each method may be called by one thread at a time.

    Args:
        kind: the application.
        role: where it runs.
        job: `creator/name`.
        agent: the agent's name.
        rng: what it gets as its randomness.
        kept: what an instance before it has kept; None: nothing.
    """

    def __init__(
        self, kind: type[Application], role: Role, job: str, agent: str, rng: random.Random, kept: bytes | None = None
    ) -> None:
        self.elf = Elf(role, job, agent, rng, _known(kept))
        self._kind = kind
        self.application: Application | None = None
        #: The callback that runs, or ran last.
        self.callback = "__init__"

    def handle(self, event: Input, now_ms: int) -> list[Effect]:
        """Call back for one input, `Started` first, and return what was asked for, in order.

        Raises:
            ApplicationError: the application failed, and is not to be called again.
        """
        self.elf.begin(now_ms)
        if isinstance(event, Asked):
            return self._answer(event)
        try:
            self._call(event)
        except msgspec.DecodeError:
            return []  # a peer's message that is none
        except BaseException as error:
            if not is_theirs(error):
                raise
            raise ApplicationError(f"{self.callback} failed: {brief(error)}") from error
        return self.elf.take()

    def _call(self, event: Input) -> None:
        match event:
            case Started():
                self._make().on_start()
            case Closed(result):
                self._on("on_result").on_result(result)
            case Heard(None):
                self._on("on_missed").on_missed()
            case Heard(bytes() as body):
                message = unpacked(body)
                self._on("on_multicast").on_multicast(message)
            case Received(sender, body):
                message = unpacked(body)
                self._on("on_recv").on_recv(sender, message)
            case Rung():
                self._on("on_timer").on_timer()
            case Answered(number, body, error):
                value = None if body is None else unpacked(body)
                answer = self.elf.answer_of(number, value, error or None)
                if answer is not None:
                    self._on("on_answer").on_answer(answer)

    def _answer(self, event: Asked) -> list[Effect]:
        """Answer a query; what fails on it is an answer too, or whoever may ask could end the application."""
        try:
            query = unpacked(event.body)
            value: Any = self._on("on_route").on_route(event.asker, query)
            reply = Reply(packed(value))
        except msgspec.DecodeError as error:
            return [Reply(None, f"the query is no message: {error}")]
        except NotImplementedError as error:
            return [Reply(None, str(error) or "this application answers no queries")]
        except BaseException as error:
            if not is_theirs(error):
                raise
            return [Reply(None, f"on_route failed: {brief(error)}")]
        return [reply, *self.elf.take()]

    def _make(self) -> Application:
        self.callback = "__init__"
        made = self._kind.__new__(self._kind)
        made.elf = self.elf
        made.__init__()  # type: ignore[misc]
        self.application = made
        self.callback = "on_start"
        return made

    def _on(self, callback: str) -> Application:
        assert self.application is not None, "Started comes first"
        self.callback = callback
        return self.application


def _known(kept: bytes | None) -> Any:
    """Return what was kept; nothing where a member of the job's root group has kept what nobody can read."""
    try:
        return None if kept is None else unpacked(kept)
    except msgspec.DecodeError:
        return None
