"""`intonaco compile`: everything that pictures, films or edits of one shape need, ahead of the first."""

from __future__ import annotations

from intonaco.cli import options, program_options
from intonaco.cli.program_needs import Asked, find_needs
from intonaco.cli.terminal import Terminal


def compile_programs(
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
    """Compile everything that pictures or films of one size need, once; later starts only load it.

    Examples:

        intonaco compile
        intonaco compile --size 256x256 --backend openvino
        intonaco compile --edit --reference-size 96x96 --store ./store
        intonaco compile --model ./wan --size 832x480 --frames 81
        intonaco compile --template catalog/3fa9
        intonaco compile --template http://127.0.0.1:8650 --reference-size 96x96

    What is in the store already is left alone. A store may be copied to a like machine, which then
    needs no compiler. With --template, 'intonaco edit --template' compiles nothing afterwards; templates
    of one size whose masks are about as large share their programs.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
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
        root = needs.library.store.root
        folders = needs.library.ensure(needs.specs)
        count = len(needs.templates)
        serving = f", for edits on {count} template{'s' * (count > 1)}" if count else ""
        terminal.say(f"{len(set(folders))} programs in {root}{serving}")
        terminal.result(
            {
                "store": str(root),
                "programs": [
                    {"component": spec.component, "digest": folder.name}
                    for spec, folder in zip(needs.specs, folders, strict=True)
                ],
                "templates": needs.describe_templates(),
            }
        )
