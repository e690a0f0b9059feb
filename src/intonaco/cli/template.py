"""`intonaco template`: its verbs, and those that look into what was prepared and check it."""

from pathlib import Path
from typing import Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.template_build import build
from intonaco.cli.template_serve import fetch, serve
from intonaco.cli.terminal import Terminal

TemplatePath = Annotated[
    Path, typer.Argument(metavar="CATALOG/ID", help="A template's folder; the id may be shortened.")
]
ReportFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Write plots as PNG and all of it as index.html here.",
        rich_help_panel=options.OUTPUT,
    ),
]


def inspect(
    path: TemplatePath,
    output: ReportFolder = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Show what is in a template: sizes, spectra, importance over the picture, what bytes buy.

    Examples:

        intonaco template inspect catalog/3fa9
        intonaco template inspect catalog/3fa9 -o report/
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        from intonaco.template.catalog import open_template
        from intonaco.template.inspect import inspect_template

        with terminal.waiting("reading the template"):
            found = inspect_template(open_template(path))
        for name, value in found.facts.items():
            terminal.say(f"{name:<13} {value}")
        if output is not None:
            files = {name: content for name, (_, content) in found.pictures.items()}
            _write_all(output, {**files, "index.html": found.to_html().encode()})
            terminal.say(f"{output / 'index.html'}: {len(files)} pictures")
        terminal.result(dict(found.numbers))


def verify(
    path: TemplatePath,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Compare every file of a template, or of a whole catalog, with its checksum and read it.

    Examples:

        intonaco template verify catalog/3fa9
        intonaco template verify catalog

    The exit code is 3 when a file is damaged or missing.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        from intonaco.template.catalog import open_templates
        from intonaco.template.verify import verify_template

        templates = open_templates(path)
        problems = {one.manifest.template_id: verify_template(one) for one in templates}
        for found in problems.values():
            for problem in found:
                terminal.say(problem)
        damaged = [name for name, found in problems.items() if found]
        terminal.say(f"{len(problems) - len(damaged)} of {len(problems)} templates are whole")
        terminal.result({"num_templates": len(problems), "problems": problems})
        if damaged:
            raise typer.Exit(3)


def _write_all(folder: Path, contents: dict[str, bytes]) -> None:
    from intonaco.pipelines.picture import write_files

    folder.mkdir(parents=True, exist_ok=True)
    drawing.check_folder(folder)
    write_files({folder / name: content for name, content in contents.items()})


# In the order in which a newcomer meets them.
template = typer.Typer(
    name="template",
    help="Prepare pictures for private edits.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
template.command("build")(build)
template.command("inspect")(inspect)
template.command("verify")(verify)
template.command("serve")(serve)
template.command("fetch")(fetch)
