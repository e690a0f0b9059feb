"""Waits for a started model process to become ready, and says why it does not."""

import asyncio
from collections.abc import Callable

from intonaco.errors import ModelProcessError
from intonaco.serving.messages import Load, Loading, ModelFacts, Ready, StartFailed
from intonaco.serving.profile import ServingProfile
from intonaco.serving.replica import Replica


class StartRefusedError(ModelProcessError):
    """A start that would fail again in the same way."""


async def await_ready(
    replica: Replica,
    profile: ServingProfile,
    *,
    before: ModelFacts | None,
    on_phase: Callable[[str], None],
) -> ModelFacts:
    """Have `replica` load `profile`; return its facts once its smoke generation passed.

    Raises ModelProcessError; StartRefusedError where another start would not help, as where it does
    not draw what the process of `before` drew.
    """
    phase = "the model process starts"
    try:
        async with asyncio.timeout(profile.start_timeout_s):
            await replica.send(Load(profile=profile))
            while isinstance(said := (await replica.receive()).message, Loading):
                phase = said.phase
                on_phase(phase)
    except TimeoutError:
        raise ModelProcessError(
            f"the start took longer than {profile.start_timeout_s:g} s, last: {phase}"
        ) from None
    match said:
        case Ready():
            _compare(before, said.facts)
            return said.facts
        case StartFailed(is_final=True):
            raise StartRefusedError(f"{said.error}: {said.message}")
        case StartFailed():
            raise ModelProcessError(f"{said.error}: {said.message}")
        case _:
            raise ModelProcessError(f"the model process said {said.kind} before ready")


def _compare(before: ModelFacts | None, facts: ModelFacts) -> None:
    """Raise unless a new process has the weights of the first one and draws what it drew."""
    if before is None:
        return
    if before.model_digest != facts.model_digest:
        raise StartRefusedError(
            f"model_digest was {before.model_digest[:12]} before the restart and is now "
            f"{facts.model_digest[:12]}; start the server anew to serve other weights"
        )
    if before.smoke_sha256 != facts.smoke_sha256:
        raise StartRefusedError(
            f"the smoke generation drew {facts.smoke_sha256[:12]}, before the restart "
            f"{before.smoke_sha256[:12]}; the model or the machine has changed, start anew"
        )
