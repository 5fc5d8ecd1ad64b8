"""One call, from the question to an answer that fits: sent, sent again, repaired; every request budgeted and timed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from agents.model import reply as replies
from agents.model.answer import Unusable, parse
from agents.model.budget import Budget
from agents.model.call import Completion, LLMError, Sent, sending
from agents.model.connection import Response, TooLarge, Unreachable
from agents.model.pace import Flight, Pace
from agents.model.reply import Failure, Reply, Tally
from agents.model.request import Dialect, Question, adapted, answer_limit, body
from agents.model.wire import Wire
from telemetry.edge.files import MANIFEST
from telemetry.edge.text import MAX_PARSE_ERROR, MAX_RAW_OUTPUT, cut
from telemetry.record import pricing

CHARS_PER_TOKEN = 3  # to foresee the price of a prompt; English has about 4, so this errs to the dear side
FITS_CHARS_PER_TOKEN = 4  # to foresee that it cannot fit: errs to the side of asking
LEAST_ANSWER = 64  # tokens; with less left in its context there is no use in asking a model


class Endpoint(Protocol):
    """What a call needs to know of the endpoint it goes to."""

    base_url: str
    provider: str
    budget: Budget
    retries: int
    first_wait_s: float

    def chance(self) -> float: ...
    def dialect(self, model: str) -> Dialect: ...
    def learn(self, model: str, dialect: Dialect) -> None: ...


@dataclass(slots=True)
class Call:
    """One call under way."""

    to: Endpoint
    wire: Wire
    pace: Pace
    flight: Flight
    question: Question
    price: pricing.Override | None
    context_tokens: int | None
    tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(self.question.model, self.to.provider, self.price)

    async def answer(self) -> Completion:
        """Ask once, and once more if the answer does not fit."""
        question, wanted = self._fitting(self.question), self.question.wanted
        self.tally.tools = question.tools
        text = await self._ask(question)
        if question.tools and self.tally.replies[-1].tool_calls:
            return self.tally.completion(None)
        try:
            return self.tally.completion(parse(text, wanted))
        except Unusable as problem:
            demand = (
                f"That answer cannot be used: {problem}. Answer again with only the JSON that was asked for."
            )
        shown = cut(text, MAX_RAW_OUTPUT)[0]
        exchange = ({"role": "assistant", "content": shown}, {"role": "user", "content": demand})
        self.tally.repaired = True
        text = await self._ask(
            self._fitting(replace(self.question, messages=[*question.messages, *exchange], tools=()))
        )
        try:
            return self.tally.completion(parse(text, wanted))
        except Unusable as problem:
            raise unparsable(f"{problem} (also when asked again)", text) from problem

    async def _ask(self, question: Question) -> str:
        """The text of one answer: send until it comes, the failure is final, or the next attempt would be too late."""
        retries, ends = 0, self.wire.loop.time() + question.timeout_s
        while True:
            outcome = await self._send(question)
            if isinstance(outcome, Reply):
                return self._usable(outcome, question)
            if outcome.learnt:
                continue
            if not outcome.retry or retries >= self.to.retries:
                raise outcome.error(self.tally.attempts)
            wait = replies.wait_s(outcome, retries, self.to.first_wait_s, self.to.chance())
            if self.wire.loop.time() + wait >= ends:
                late = (
                    f"; the next attempt is due in {wait:.1f} s, past the limit of {question.timeout_s:g} s"
                )
                raise replace(outcome, message=outcome.message + late).error(self.tally.attempts)
            retries += 1
            left = self.to.budget.seconds_left()  # whoever waits past the end of the budget waits in vain
            await asyncio.sleep(wait if left is None else min(wait, max(0.0, left)))

    async def _send(self, question: Question) -> Reply | Failure:
        """One request: reserved before, settled after; whatever may have been billed counts with its worst case."""
        budget, limit = self.to.budget, question.timeout_s
        worst = self._worst_usd(question)
        reserved = await budget.reserve(worst)
        billed: float | None = None
        left = budget.seconds_left()
        self.tally.attempts += 1
        if (note := sending.get()) is not None:
            note(self._sent(question))
        try:
            async with self.pace.limited(self.flight, limit, left):
                outcome = await self._posted(question)
            if isinstance(outcome, Reply):
                billed = self.tally.add(outcome)
            elif not outcome.billed:
                billed = 0.0
        except TimeoutError as problem:
            self.pace.slower(self.flight)
            if left is not None and left < limit and budget.max_seconds is not None:
                reason = f"max_seconds {budget.max_seconds:g} reached during a call"
                raise budget.stop(reason) from problem
            said = f"{question.model}: no whole answer within {limit:g} s; if it is that slow, raise timeout_s of"
            raise LLMError(f"{said} its `model:` in {MANIFEST}, or give --timeout-s", "timeout") from problem
        finally:
            budget.settle(reserved, billed)
            self.tally.booked += worst if billed is None else billed
        return outcome

    async def _posted(self, question: Question) -> Reply | Failure:
        """What comes of one request."""
        model, base_url = question.model, self.to.base_url
        request = body(self.to.dialect(model), question)
        self.tally.temperature, self.tally.messages = request.get("temperature"), request["messages"]
        try:
            response = await self.wire.post(request)
        except Unreachable as problem:
            return replies.unreachable(model, base_url, problem)
        except TooLarge as problem:
            # Far more than was asked for is a server gone wrong: no prompt is to blame, so no arm loses by it.
            self.tally.text = problem.head
            raise LLMError(str(problem), "provider", raw=problem.head[:MAX_PARSE_ERROR]) from problem
        self.pace.answered(self.flight, question.timeout_s)
        if 200 <= response.status < 300:
            return replies.read(response, model=model, base_url=base_url)
        self.tally.request_id = response.headers.get("x-request-id")
        return self._refused(model, request, response)

    def _refused(self, model: str, request: dict[str, Any], response: Response) -> Failure:
        """A refusal may say how to ask better: that is remembered for every later call of this model."""
        status, answer = response.status, replies.told(response.content)
        failure = replies.of_status(status, answer, response.headers, model=model, base_url=self.to.base_url)
        if failure.kind == "agent":
            return failure
        words, param = replies.said(answer), replies.part(answer, "param")
        better = adapted(self.to.dialect(model), request, status, words, param)
        if better is not None:
            self.to.learn(model, better)
            return replace(failure, learnt=True)
        if failure.overload:
            self.pace.slower(self.flight)
        return failure

    def _fitting(self, question: Question) -> Question:
        """The question with an answer no longer than its context allows; one that cannot fit is never sent."""
        if self.context_tokens is None:
            return question
        chars = self._chars(question)
        about = chars // FITS_CHARS_PER_TOKEN
        if about + LEAST_ANSWER > self.context_tokens:
            raise LLMError(
                f"the prompt, about {about} tokens, does not fit into context_tokens {self.context_tokens} of"
                f" {question.model}",
                "agent",
            )
        reasoning = answer_limit(self.to.dialect(question.model), question) - question.max_tokens
        left = self.context_tokens - chars // CHARS_PER_TOKEN - reasoning
        return replace(question, max_tokens=max(LEAST_ANSWER, min(question.max_tokens, left)))

    def _worst_usd(self, question: Question) -> float:
        """The most that a request is foreseen to cost; nothing is foreseen when no USD cap is set."""
        if self.to.budget.max_usd is None:
            return 0.0
        most = self._sent(question)
        usage = pricing.Usage(most.tokens_in, most.tokens_out)
        return pricing.cost(question.model, usage, provider=self.to.provider, override=self.price).usd or 0.0

    def _sent(self, question: Question) -> Sent:
        prompt = self._chars(question) // CHARS_PER_TOKEN + 16 * len(question.messages)
        answer = answer_limit(self.to.dialect(question.model), question)
        given = None if self.price is None else (self.price.prompt_per_mtok, self.price.completion_per_mtok)
        return Sent(question.model, self.to.provider, prompt, answer, given)

    def _chars(self, question: Question) -> int:
        spoken = sum(
            len(str(message.get("content", ""))) + len(str(message.get("tool_calls", "")))
            for message in question.messages
        )
        return spoken + len(question.wanted.text) + sum(len(str(tool)) for tool in question.tools)

    def _usable(self, reply: Reply, question: Question) -> str:
        """The text of a reply that ended as it should."""
        if reply.refusal:
            said = f"{question.model} refused: {reply.refusal[:MAX_PARSE_ERROR]}"
            raise LLMError(said, "parse", raw=reply.refusal)
        if reply.finish_reason == "length":
            limit, written = answer_limit(self.to.dialect(question.model), question), reply.usage.tokens_out
            thought = f", {reply.usage.thinking} of them spent on reasoning" if reply.usage.thinking else ""
            said = f"cut off at max_tokens {limit}{thought}; raise max_tokens of its `model:` in {MANIFEST}"
            # Endpoints count in their own ways; asking for more would not help.
            if written and written < 0.9 * limit:
                said = f"cut off by the endpoint after {written} tokens{thought}; it was allowed {limit}"
            raise unparsable(f"the answer was {said}", reply.text)
        if reply.finish_reason == "content_filter":
            raise unparsable("the endpoint's content filter withheld the answer", reply.text)
        return reply.text


def unparsable(problem: str, text: str) -> LLMError:
    """An answer that came, and is of no use; it is quoted in one line, however it was laid out."""
    begins = " ".join(text[: 4 * MAX_PARSE_ERROR].split())[:MAX_PARSE_ERROR]
    return LLMError(f"{problem}; the answer begins: {begins!r}", "parse", raw=text)
