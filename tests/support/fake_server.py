"""The API process as it is, over a fake model process: `python -m tests.support.fake_server`."""

import argparse
import json
import sys

from intonaco.cli.serve import parse_fields
from intonaco.serving.profile import make_profile
from intonaco.serving.replica import LocalReplica
from intonaco.serving.server import Listening, serve


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", default="fine")
    parser.add_argument("--marker", default=None)
    parser.add_argument("--films", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    command = [sys.executable, "-m", "tests.support.fake_model_process", "--start", options.start]
    if options.films:
        command.append("--films")
    if options.marker:
        command += ["--marker", options.marker]

    def listening(where: Listening) -> None:
        sys.stdout.write(json.dumps({"url": where.url}) + "\n")
        sys.stdout.flush()

    profile = make_profile({"port": 0, **parse_fields(options.set)})
    is_well = serve(
        profile,
        on_listening=listening,
        log=sys.stderr,
        make_replica=lambda: LocalReplica(command),
    )
    return 0 if is_well else 3


if __name__ == "__main__":
    sys.exit(main())
