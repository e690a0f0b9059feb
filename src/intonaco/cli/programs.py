"""`intonaco programs`: what is in the store, why a program would be compiled, whether all is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from intonaco.cli import options, program_options
from intonaco.cli.program_needs import Asked, find_needs, open_artifacts
from intonaco.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from intonaco.programs.spec import ProgramKey
    from intonaco.programs.store import ArtifactStore

SHOWN_DIGITS = 12

programs = typer.Typer(
    name="programs",
    help="Look into the store of compiled programs.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@programs.command("ls")
def list_programs(
    store: program_options.Store = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """List what is in the store.

    Examples:

        intonaco programs ls
        intonaco programs ls --store ./store --json
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        opened = open_artifacts(store)
        manifests = opened.manifests()
        for manifest in manifests:
            key = manifest.key
            terminal.say(
                f"{manifest.digest[:SHOWN_DIGITS]}  {key.spec.component:<22} "
                f"{key.fingerprint.get('backend', '?'):<9} {key.spec.precision:<9} "
                f"{manifest.num_bytes / 1e6:6.1f} MB  {manifest.compile_s:6.1f} s  "
                f"{manifest.created}"
            )
        terminal.say(f"{len(manifests)} programs in {opened.root}")
        terminal.result(
            {
                "store": str(opened.root),
                "programs": [
                    {
                        "digest": manifest.digest,
                        "component": manifest.key.spec.component,
                        "precision": manifest.key.spec.precision,
                        "fingerprint": manifest.key.fingerprint,
                        "num_bytes": manifest.num_bytes,
                        "compile_s": manifest.compile_s,
                        "created": manifest.created,
                    }
                    for manifest in manifests
                ],
            }
        )


@programs.command("why")
def explain(
    model: options.Model = None,
    size: options.Size = None,
    frames: program_options.Frames = None,
    reference_size: program_options.ReferenceSizes = None,
    edit: program_options.IsEdit = False,
    template: program_options.Templates = None,
    probe: program_options.HasProbe = False,
    dtype: options.Precision = "float32",
    backend: program_options.BackendName = "inductor",
    store: program_options.Store = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Say which programs one size needs, and why any of them would be compiled.

    Examples:

        intonaco programs why
        intonaco programs why --size 256x256 --dtype bfloat16
        intonaco programs why --template catalog/3fa9

    For a program that is not stored, the nearest stored one is named with the fields that differ.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        from intonaco.programs.spec import make_key

        asked = Asked(
            model=model,
            dtype=dtype,
            backend=backend,
            store=store,
            size=size,
            frames=frames,
            reference_sizes=reference_size or (),
            templates=template or (),
            is_edit=edit,
            has_probe=probe,
        )
        needs = find_needs(terminal, asked)
        library = needs.library
        fingerprint = library.backend.fingerprint()
        keys = {key.digest: key for key in (make_key(spec, fingerprint) for spec in needs.specs)}
        answers = [_answer(library.store, key) for key in keys.values()]
        templates = needs.describe_templates()
        for one in templates:
            terminal.say(
                f"template {one['template_id']:.16}: {one['width']}x{one['height']}, "
                f"{one['num_edited_tokens']} of {one['num_tokens']} tokens left to edits"
            )
        width = max(len(answer["component"]) for answer in answers)
        for answer in answers:
            terminal.say(f"{answer['component']:<{width}} {answer['text']}")
        terminal.result({"programs": answers, "templates": templates})


@programs.command("verify")
def verify(
    store: program_options.Store = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Compare every stored file with its checksum.

    Examples:

        intonaco programs verify

    The exit code is 3 when a program is damaged.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        verdicts = open_artifacts(store).verify()
        damaged = [verdict for verdict in verdicts if verdict.problem]
        for verdict in damaged:
            terminal.say(verdict.problem)
        terminal.say(f"{len(verdicts) - len(damaged)} of {len(verdicts)} programs are whole")
        terminal.result(
            {"num_programs": len(verdicts), "damaged": {v.digest: v.problem for v in damaged}}
        )
        if damaged:
            raise typer.Exit(3)


@programs.command("prune")
def prune(
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Remove programs whose files are damaged.")
    ] = False,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Remove programs compiled for another machine.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Remove every program.")] = False,
    backend: program_options.BackendName = "inductor",
    store: program_options.Store = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Remove programs, and whatever a killed compile left behind.

    Examples:

        intonaco programs prune
        intonaco programs prune --damaged
        intonaco programs prune --foreign --backend inductor

    Without an option only leftovers go. A process that has a program loaded keeps it.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        opened = open_artifacts(store)
        num_leftovers = opened.sweep()
        sizes: dict[str, int] = {}
        if damaged or everything:
            broken = [verdict.digest for verdict in opened.verify() if verdict.problem]
            sizes |= _removed(broken, opened.remove_damaged)
        if everything:
            sizes |= _removed([one.digest for one in opened.manifests()], opened.remove)
        if foreign:
            sizes |= _removed(_foreign(opened, backend), opened.remove)
        num_bytes = sum(sizes.values())
        terminal.say(
            f"removed {len(sizes)} programs ({num_bytes / 1e6:.1f} MB) and {num_leftovers} leftovers"
        )
        terminal.result(
            {"removed": sorted(sizes), "num_bytes": num_bytes, "num_leftovers": num_leftovers}
        )


def _answer(store: ArtifactStore, key: ProgramKey) -> dict[str, Any]:
    from intonaco.errors import ArtifactDamagedError

    answer: dict[str, Any] = {"component": key.spec.component, "digest": key.digest}
    try:
        if store.find(key) is not None:
            return {**answer, "is_stored": True, "text": f"stored as {key.digest[:SHOWN_DIGITS]}"}
    except ArtifactDamagedError as error:
        return {**answer, "is_stored": False, "text": str(error)}
    nearest = store.nearest(key)
    if nearest is None:
        return {**answer, "is_stored": False, "text": "not stored: the store is empty"}
    return {
        **answer,
        "is_stored": False,
        "nearest": nearest.manifest.digest,
        "differences": nearest.differences,
        "text": (
            f"not stored: {nearest.manifest.digest[:SHOWN_DIGITS]} "
            f"({nearest.manifest.key.spec.component}) differs in {nearest.describe()}"
        ),
    }


def _removed(digests: Iterable[str], remove: Callable[[str], int | None]) -> dict[str, int]:
    """Remove programs; return the bytes of each that this process removed, not another one."""
    sizes = {digest: remove(digest) for digest in digests}
    return {digest: size for digest, size in sizes.items() if size is not None}


def _foreign(store: ArtifactStore, backend_name: str) -> set[str]:
    """Return the programs of one backend whose fingerprint is not that of this machine."""
    from intonaco.backends.registry import make_backend

    here = dict(make_backend(backend_name).fingerprint())
    return {
        manifest.digest
        for manifest in store.manifests()
        if manifest.key.fingerprint.get("backend") == backend_name
        and manifest.key.fingerprint != here
    }
