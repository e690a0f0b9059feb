"""`intonaco serve`: a model behind HTTP, in OpenAI's form."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from intonaco.cli import options
from intonaco.cli.failures import ExitCode
from intonaco.cli.terminal import Terminal
from intonaco.errors import ProfileError

SERVER = "Server"

Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Serving profile, YAML or TOML. Default: the built-in model, all defaults.",
        rich_help_panel=SERVER,
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Address to bind. Any but loopback needs api_key_file in the profile.",
        rich_help_panel=SERVER,
    ),
]
Port = Annotated[
    str | None,
    typer.Option(
        "--port",
        metavar="N",
        help="Port to bind; 0 = a free one. Default: 8000.",
        rich_help_panel=SERVER,
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="What computes: eager, inductor or openvino. Default: the profile's.",
        rich_help_panel=options.MODEL,
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Override any field of the profile, such as max_queue=8. May be given more than once.",
        rich_help_panel=SERVER,
    ),
]
IsCheck = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Check the profile, print it with all defaults, serve nothing.",
        rich_help_panel=SERVER,
    ),
]


def serve(
    profile: Profile = None,
    host: Host = None,
    port: Port = None,
    model: options.Model = None,
    backend: Backend = None,
    set_field: Fields = None,
    check: IsCheck = False,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Serve a model over HTTP, as OpenAI's image or video routes, until Ctrl-C or SIGTERM.

    Prints the address on stdout; one JSON line per event goes to stderr.

    Examples:

        intonaco serve
        intonaco serve --port 0 --set max_queue=8 --set log_prompts=true
        intonaco serve --profile profile.yaml --check
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        # Imported here: no other verb pays for a web server.
        from intonaco.serving import server
        from intonaco.serving.profile import read_profile

        flags = {
            "host": host,
            "port": options.parse_whole_number(port, option="--port", example=8000),
            "model": model,
            "backend": backend,
        }
        overrides = {name: value for name, value in flags.items() if value is not None}
        resolved = read_profile(profile, {**parse_fields(set_field or []), **overrides})
        if check:
            fields = resolved.model_dump(mode="json")
            for name, value in fields.items():
                terminal.say(f"{name}: {value}")
            terminal.result(fields)
            return

        def listening(where: server.Listening) -> None:
            terminal.say(f"listening on {where.url}")
            terminal.result({"url": where.url, "port": where.port})
            sys.stdout.flush()

        if not server.serve(resolved, on_listening=listening, log=sys.stderr):
            raise typer.Exit(ExitCode.CANNOT)


def parse_fields(texts: list[str]) -> dict[str, Any]:
    """Return the fields in texts such as "max_queue=8", values read as YAML. Raises ProfileError."""
    import yaml

    fields: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise ProfileError(
                f"--set must be FIELD=VALUE, got {text!r}; such as --set max_queue=8"
            )
        try:
            fields[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ProfileError(f"--set {name}: {value!r} cannot be read as a value") from None
    return fields
