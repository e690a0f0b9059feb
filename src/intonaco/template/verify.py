"""Reads a whole template as an edit would, and says what is wrong with it."""

from intonaco.errors import TemplateError
from intonaco.template.catalog import Template, check_template
from intonaco.template.loading import load_template


def verify_template(template: Template) -> list[str]:
    """Return what is wrong with a template, one line each; empty if every part can be used.

    Compares every file with its SHA-256, then its parts with the identity, then reads every chunk
    and every unit.
    """
    problems = check_template(template)
    if problems:
        return problems
    try:
        source = load_template(template).source
        for step in range(source.shape.num_steps):
            for block in range(source.shape.num_blocks):
                source.read(step, block)
    except TemplateError as error:
        return [str(error)]
    return []
