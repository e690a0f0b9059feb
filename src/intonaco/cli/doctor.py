"""`intonaco doctor`: what this machine can do, what is missing, and how to get it."""

from collections.abc import Sequence
from dataclasses import asdict

import typer

from intonaco.cli import options
from intonaco.cli.failures import ExitCode
from intonaco.cli.findings import Finding, examine
from intonaco.cli.terminal import Terminal


def doctor(
    model: options.Model = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Look at this machine: what it can do, what is missing, how to get it.

    Changes nothing. The exit code is 3 where something is missing without which nothing can be drawn.

    Examples:

        intonaco doctor
        intonaco doctor --model my-checkpoint --json
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        with terminal.waiting("looking"):
            findings = examine(model)
        can_draw = all(finding.is_ok for finding in findings if finding.is_needed)
        for line in table(findings):
            terminal.say(line)
        terminal.say("")
        terminal.say(verdict(findings))
        terminal.result({"can_draw": can_draw, "findings": [asdict(item) for item in findings]})
        if not can_draw:
            raise typer.Exit(ExitCode.CANNOT)


def table(findings: Sequence[Finding]) -> list[str]:
    """Return one line per finding, and a second one with the remedy where it is needed."""
    width = max(len(finding.name) for finding in findings)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{_mark(finding):8} {finding.name:{width}}  {finding.value}")
        if not finding.is_ok:
            lines.append(f"{'':8} {'':{width}}  -> {finding.remedy}")
    return lines


def verdict(findings: Sequence[Finding]) -> str:
    """Return in one line whether this machine can draw, and what it lacks."""
    missing = [finding.name for finding in findings if finding.is_needed and not finding.is_ok]
    if missing:
        return f"cannot draw yet: {', '.join(missing)} first"
    optional = [finding.name for finding in findings if not finding.is_ok]
    if optional:
        return f"ready to draw; not there, and not needed for that: {', '.join(optional)}"
    return "ready to draw; nothing is missing"


def _mark(finding: Finding) -> str:
    if finding.is_ok:
        return "ok"
    return "MISSING" if finding.is_needed else "absent"
