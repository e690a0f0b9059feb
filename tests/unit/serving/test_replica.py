import asyncio
import sys

import psutil
import pytest

from intonaco.errors import ModelProcessError
from intonaco.serving.messages import Stop
from intonaco.serving.replica import LocalReplica, describe_exit
from tests.support.running_server import is_gone

FORKING = """
import subprocess, sys, threading
subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with 0"),
        (-9, "was ended by SIGKILL"),
        (-63, "was ended by signal 63"),
        (None, "closed its connection"),
    ],
)
def test_an_exit_is_told_in_words(code, words):
    assert describe_exit(code) == words


def test_a_command_that_does_not_exist_is_told():
    with pytest.raises(ModelProcessError, match="cannot be started"):
        asyncio.run(LocalReplica(["no-such-command"]).start())


def test_an_end_is_confirmed_for_children_too():
    async def live() -> tuple[str, list[psutil.Process]]:
        replica = LocalReplica([sys.executable, "-c", FORKING])
        await replica.start()
        process = psutil.Process(int(replica.name.removeprefix("pid ")))
        deadline = asyncio.get_running_loop().time() + 60
        while not process.children() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0)
        children = process.children()
        return await replica.end(grace_s=0), children

    how, children = asyncio.run(live())
    assert (how, len(children)) == ("was ended by SIGKILL", 1)
    assert all(is_gone(child.pid) for child in children)


def test_a_replica_that_was_not_started_can_be_ended_and_takes_nothing():
    async def live() -> str:
        replica = LocalReplica()
        with pytest.raises(ModelProcessError, match="was not started"):
            await replica.send(Stop())
        return await replica.end(grace_s=0)

    assert asyncio.run(live()) == "was not started"
