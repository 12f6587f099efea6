"""Keychain secrets where their values are not available, and entries that workers cannot read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.graph import Json, Span, Template
from noetl_compiler.language.keychain import SECRETS_ENTRY, SECRETS_TOOL, origin_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.templating.locate import find_path
from noetl_compiler.templating.secret_uses import misused_secret, reads_secret
from noetl_compiler.templating.template_uses import TemplateUse, template_uses
from noetl_compiler.value_merge import mapping_of
from noetl_compiler.visible_names import VisibleNames

__all__ = ["check_secrets"]

_HINT = "pass the secret to the tool, alone or inside text: in headers, input, params, or auth"
_KEYCHAIN = "keychain"


def check_secrets(playbook: Playbook, report: Report) -> None:
    """Report NT309 and NT512."""
    if playbook.keychain or _KEYCHAIN in report.source.text:
        _forbid_wrong_uses(playbook, report)
        _forbid_secrets_in_code(playbook, report)
    for entry in playbook.keychain:
        _warn_of_unreadable_manager(entry.name, entry.kind, mapping_of(entry.config), entry.span, report)
    for task in all_tasks(playbook):
        if task.kind.text == SECRETS_TOOL and task.workbook is None:
            config = mapping_of(task.config)
            name = str(config.get("secret_name") or config.get("name") or task.label.text)
            _warn_of_unreadable_manager(name, SECRETS_ENTRY, config, task.span, report)


def _forbid_wrong_uses(playbook: Playbook, report: Report) -> None:
    names = VisibleNames(playbook)
    default_spans = set(playbook.workload.templates.values())
    for use in template_uses(playbook):
        roots = _secret_roots(use, names)
        if not roots:
            continue
        source = use.template.source
        if use.template.span in default_spans and reads_secret(source, roots):
            _report(use.template, roots, "the workload's defaults cannot read a secret", report)
        elif use.is_predicate and reads_secret(source, roots):
            _report(
                use.template, roots, "a condition cannot read a secret: only the called tool knows its value", report
            )
        elif not use.is_predicate and (name := misused_secret(source, roots)):
            message = "a template cannot compute with a secret: only the called tool knows its value"
            _report(use.template, frozenset({name}), message, report)


def _secret_roots(use: TemplateUse, names: VisibleNames) -> frozenset[str]:
    """Return the root names of the secrets that a template reads: ``keychain``, or an entry that nothing shadows."""
    roots = analyse_template(use.template.source).root_names
    shadowing = names.results | names.ctx | names.workload | names.region_names
    entry_names = (roots & names.keychain) - shadowing
    return frozenset(
        name for name in {*entry_names, *(roots & {_KEYCHAIN})} if not names.may_be_bound_by_playbook(use, name)
    )


def _forbid_secrets_in_code(playbook: Playbook, report: Report) -> None:
    names = VisibleNames(playbook)
    for task in all_tasks(playbook):
        for splice in task.splices:
            for position, span in splice.value.templates.items():
                template = Template(str(splice.value.data) if not position else "", span)
                roots = analyse_template(template.source).root_names
                if secret_roots := frozenset(roots & {_KEYCHAIN, *names.keychain}):
                    message = "code cannot contain a secret: bind it with input, and read it by its name"
                    _report(template, secret_roots, message, report)


def _report(template: Template, roots: frozenset[str], message: str, report: Report) -> None:
    name = min(roots, key=lambda root: find_path(template.source, root))
    span = report.locator.path_span(template, name)
    report.error(Code.KEYCHAIN_READ, span, message, _HINT)


def _warn_of_unreadable_manager(name: str, kind: str, config: Mapping[str, Json], span: Span, report: Report) -> None:
    provider = str(config.get("provider") or "")
    if "{{" in provider or origin_of(kind, config) != "elsewhere":
        return
    source = f'from the secret manager "{provider}"' if provider else f'secrets of the kind "{kind}"'
    field_map = config.get("map")
    fields = (
        f" with {', '.join(cast('dict[str, Json]', field_map))}" if isinstance(field_map, dict) and field_map else ""
    )
    message = f'workers cannot read {source}: calls that need "{name}" fail without a credential of that name'
    report.warning(
        Code.UNREACHED_KEYCHAIN, span, message, f"register a credential {name}{fields}, or keep the secret in Vault"
    )
