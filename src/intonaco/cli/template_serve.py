"""`intonaco template serve` and `fetch`: a catalog over HTTP, and a copy of what one serves."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.terminal import Terminal
from intonaco.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from intonaco.streaming.fetch import FetchedTemplate

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = "8650"
STORE = "Store"

CatalogFolder = Annotated[Path, typer.Argument(metavar="CATALOG", help="The folder to serve.")]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Where to listen. Default: this machine only.",
        rich_help_panel=STORE,
    ),
]
Port = Annotated[
    str,
    typer.Option(
        "--port",
        metavar="N",
        help=f"0 takes a free one. Default: {DEFAULT_PORT}.",
        rich_help_panel=STORE,
    ),
]
TemplateUrl = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="A template's folder at a store: http(s)://, file:// or s3://."
    ),
]


def serve(
    catalog: CatalogFolder,
    host: Host = DEFAULT_HOST,
    port: Port = DEFAULT_PORT,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Serve a catalog over HTTP to this machine, for trying out; ends with Ctrl-C.

    Examples:

        intonaco template serve catalog/
        intonaco template serve catalog/ --port 0 --json

    Prints one line per request: what was asked for is all that a store learns.
    Any HTTP server that knows ranges serves a catalog as well, such as nginx.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        from intonaco.streaming.serve import make_application, open_store_listener
        from intonaco.streaming.serve import serve as serve_files

        number = options.parse_whole_number(port, option="--port", example=8650)
        if number is None or not 0 <= number <= 65535:
            raise RequestError(f"--port must be in 0..65535, got {port}; 0 takes a free one")
        make_application(catalog)
        with open_store_listener(host, number) as listener:
            shown = f"[{host}]" if ":" in host else host
            url = f"http://{shown}:{listener.getsockname()[1]}"
            terminal.say(f"serving {catalog} at {url}; Ctrl-C ends it")
            terminal.result({"url": url})
            # Ctrl-C is how a server is meant to end.
            with contextlib.suppress(KeyboardInterrupt):
                serve_files(catalog, listener, heard=terminal.say)


def fetch(
    url: TemplateUrl,
    output: options.CatalogOutput = Path("catalog"),
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Copy a template from a store into a catalog of this machine, checked file by file.

    Examples:

        intonaco template fetch http://127.0.0.1:8650/3fa9c0d1e2b34455 -o catalog/

    A copy that was interrupted goes on where it stopped. To edit, none is needed: 'intonaco edit
    --template URL' fetches what it can use while it draws.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        from intonaco.template.catalog import Catalog

        drawing.check_catalog(output)
        with terminal.counting("fetching") as show:
            fetched = _fetch(url, lambda done, total: show(done, total, "fetching"))
        template = Catalog(output).add(fetched.manifest, fetched.contents)
        num_bytes = sum(map(len, fetched.contents.values()))
        terminal.say(
            f"{template.folder}: {num_bytes / 1e6:.3f} MB, of which "
            f"{fetched.num_fetched_bytes / 1e6:.3f} MB were fetched now"
        )
        terminal.result(
            {
                "template_id": fetched.manifest.template_id,
                "folder": str(template.folder),
                "num_bytes": num_bytes,
                "num_fetched_bytes": fetched.num_fetched_bytes,
            }
        )


def _fetch(url: str, show: "Callable[[int, int], None]") -> "FetchedTemplate":
    import asyncio

    from intonaco.streaming.fetch import fetch_template
    from intonaco.streaming.prefix_cache import PrefixCache, default_cache_folder
    from intonaco.streaming.store import open_store, split_url

    store_url, folder = split_url(url)
    cache = PrefixCache(folder=default_cache_folder())
    return asyncio.run(fetch_template(open_store(store_url), folder, cache=cache, progress=show))
