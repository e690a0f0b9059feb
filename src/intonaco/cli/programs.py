"""`intonaco compile` and `intonaco programs`: what is compiled, why, and whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from intonaco.cli import options, program_options
from intonaco.cli.terminal import Terminal

if TYPE_CHECKING:
    from intonaco.families.base import Family
    from intonaco.programs.compiler import CompileEvent
    from intonaco.programs.library import ProgramLibrary
    from intonaco.programs.spec import ProgramKey
    from intonaco.programs.store import ArtifactStore

SHOWN_DIGITS = 12

programs = typer.Typer(
    name="programs",
    help="Look into the store of compiled programs.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def compile_programs(
    model: options.Model = None,
    size: options.Size = None,
    frames: program_options.Frames = None,
    reference_size: program_options.ReferenceSizes = None,
    edit: program_options.IsEdit = False,
    probe: program_options.HasProbe = False,
    dtype: options.Precision = "float32",
    backend: program_options.BackendName = "inductor",
    store: program_options.Store = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Compile everything that pictures or films of one size need, once; later starts only load it.

    Examples:

        intonaco compile
        intonaco compile --size 256x256 --backend openvino
        intonaco compile --edit --reference-size 96x96 --store ./store
        intonaco compile --model ./wan --size 832x480 --frames 81

    What is in the store already is left alone. A store may be copied to a like machine, which then
    needs no compiler.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        wanted = program_options.wanted(size, frames, reference_size, is_edit=edit, has_probe=probe)
        with terminal.waiting("reading the model"):
            family, library = _open(terminal, model, dtype, backend, store)
            specs = program_options.needed(family, library, wanted)
        folders = library.ensure(specs)
        distinct = sorted(set(folders))
        terminal.say(f"{len(distinct)} programs in {library.store.root}")
        terminal.result(
            {
                "store": str(library.store.root),
                "programs": [
                    {"component": spec.component, "digest": folder.name}
                    for spec, folder in zip(specs, folders, strict=True)
                ],
            }
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
        opened = _store(store)
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

    For a program that is not stored, the nearest stored one is named with the fields that differ.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        from intonaco.programs.spec import make_key

        wanted = program_options.wanted(size, frames, reference_size, is_edit=edit, has_probe=probe)
        family, library = _open(terminal, model, dtype, backend, store)
        specs = program_options.needed(family, library, wanted)
        fingerprint = library.backend.fingerprint()
        keys = {key.digest: key for key in (make_key(spec, fingerprint) for spec in specs)}
        answers = [_answer(library.store, key) for key in keys.values()]
        for answer in answers:
            terminal.say(f"{answer['component']:<22} {answer['text']}")
        terminal.result({"programs": answers})


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
        verdicts = _store(store).verify()
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
        opened = _store(store)
        digests: set[str] = set()
        if damaged or everything:
            digests |= {verdict.digest for verdict in opened.verify() if verdict.problem}
        if everything:
            digests |= {manifest.digest for manifest in opened.manifests()}
        if foreign:
            digests |= _foreign(opened, backend)
        num_leftovers = opened.sweep()
        num_bytes = sum(opened.remove(digest) for digest in sorted(digests))
        terminal.say(
            f"removed {len(digests)} programs ({num_bytes / 1e6:.1f} MB) and {num_leftovers} leftovers"
        )
        terminal.result(
            {"removed": sorted(digests), "num_bytes": num_bytes, "num_leftovers": num_leftovers}
        )


def _store(folder: Path | None) -> ArtifactStore:
    from intonaco.programs.store import ArtifactStore, default_store_folder

    return ArtifactStore(default_store_folder() if folder is None else folder)


def _open(
    terminal: Terminal, model: str | None, dtype: str, backend: str, store: Path | None
) -> tuple[Family, ProgramLibrary]:
    """Return the model on programs, and the library that serves it."""
    from intonaco.model import load

    loaded = load(
        model,
        dtype=dtype,
        backend=backend,
        store=_store(store).root,
        compile_progress=lambda event: _show(terminal, event),
    )
    denoiser: Any = getattr(loaded.family, "denoiser", None)
    return loaded.family, cast("ProgramLibrary", denoiser.library)


def _show(terminal: Terminal, event: CompileEvent) -> None:
    """Print one line of progress to stderr; what was found already needs none."""
    if event.phase == "found":
        return
    place = f"{event.index + 1} of {event.num_programs}"
    elapsed = f" in {event.elapsed_s:.1f} s" if event.elapsed_s else ""
    reason = f" ({event.reason})" if event.reason else ""
    typer.echo(f"{event.phase} {place}: {event.component}{elapsed}{reason}", err=True)


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
