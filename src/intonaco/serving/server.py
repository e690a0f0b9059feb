"""The API process: binds, supervises, serves, drains. Imports no torch, so it starts at once."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TextIO

import uvicorn

from intonaco.errors import ServingError
from intonaco.listening import open_listener
from intonaco.serving.api import make_guarded_app
from intonaco.serving.jobs import JobBook
from intonaco.serving.journal import Journal
from intonaco.serving.metrics import Metrics
from intonaco.serving.profile import ServingProfile, read_key
from intonaco.serving.replica import LocalReplica, ReplicaFactory
from intonaco.serving.service import Service
from intonaco.serving.states import State
from intonaco.serving.supervisor import Supervisor

CLOSING_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The server answers at `url`; whether it is ready is another question."""

    url: str
    port: int


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: signals drain first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def serve(
    profile: ServingProfile,
    *,
    on_listening: Callable[[Listening], None],
    log: TextIO | None,
    make_replica: ReplicaFactory = LocalReplica,
) -> bool:
    """Serve until a signal; return whether the server was able to serve when it ended.

    Raises ProfileError, or ServingError where the address cannot be bound.
    """
    api_key = read_key(profile)
    with _bind(profile) as listener:
        return asyncio.run(_run(profile, api_key, listener, on_listening, log, make_replica))


async def _run(
    profile: ServingProfile,
    api_key: str | None,
    listener: socket.socket,
    on_listening: Callable[[Listening], None],
    log: TextIO | None,
    make_replica: ReplicaFactory,
) -> bool:
    journal = Journal(log, is_verbose=profile.log_prompts)
    metrics = Metrics(tuple(State))
    supervisor = Supervisor(profile, make_replica, journal=journal, metrics=metrics)
    service = Service(
        profile=profile,
        supervisor=supervisor,
        journal=journal,
        metrics=metrics,
        jobs=JobBook(max_finished=profile.max_jobs_kept),
        api_key=api_key,
    )
    server = _Server(
        uvicorn.Config(
            make_guarded_app(service),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            limit_concurrency=profile.max_connections,
            timeout_graceful_shutdown=CLOSING_S,
        )
    )
    life = asyncio.create_task(supervisor.run())
    drains = _drain_on_signals(supervisor, server)
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    journal.write("listening", url=url)
    on_listening(Listening(url=url, port=port))
    try:
        await server.serve(sockets=[listener])
        is_well = supervisor.status.state is not State.FAILED
    finally:
        for task in (life, *drains):
            task.cancel()
        await asyncio.gather(life, *drains, return_exceptions=True)
        journal.write("ended", state=supervisor.status.state)
        journal.close()
    return is_well


def _drain_on_signals(supervisor: Supervisor, server: uvicorn.Server) -> list[asyncio.Task[None]]:
    """On the first signal finish what was accepted; on the second end at once."""
    drains: list[asyncio.Task[None]] = []

    async def drain() -> None:
        await supervisor.drain()
        server.should_exit = True

    def on_signal() -> None:
        if drains:
            server.should_exit = server.force_exit = True
        else:
            drains.append(asyncio.get_running_loop().create_task(drain()))

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return drains


def _bind(profile: ServingProfile) -> socket.socket:
    try:
        return open_listener(profile.host, profile.port)
    except OSError as error:
        raise ServingError(
            f"host {profile.host} and port {profile.port} cannot be bound "
            f"({error.strerror or error}); choose another with --port, or 0 for a free one"
        ) from None
