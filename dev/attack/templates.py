"""Templates that reach for Python's insides, or work without end."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import product
from unittest.mock import patch

from jinja2 import Environment

from dev.attack.attack import Attack, AttackClass
from noetl_compiler.graph import Json
from noetl_compiler.templates import TemplateFailure, render_text

__all__ = ["CLASS"]

SCOPE: dict[str, Json] = {"rows": [{"id": 1}], "workload": {"a": {"b": 1}}, "text": "abc", "n": 3}
INSIDES = re.compile(r"<(?:class|function|module|built-in|bound method|method|generator|_)|object at 0x|mappingproxy")

OBJECTS = (
    *("''", "text", "[]", "rows", "rows[0]", "{}", "workload", "(1)", "n", "(1.5)", "true", "none", "missing"),
    *("dict", "range", "range(3)", "namespace", "namespace(a=1)", "cycler", "lipsum", "self", "loop", "now", "now()"),
    *("text.upper", "''.join", "workload.items", "rows.append", "caller", "varargs", "request", "config"),
)
ROUTES = (
    *("{}.__class__", "{}['__class__']", "{} | attr('__class__')", "{}['__cla' ~ 'ss__']", "{}['\\x5f_class_\\x5f']"),
    *("[{}] | map(attribute='__class__') | list", "[{}] | map('attr', '__class__') | list", "{}.__doc__"),
    *("'{{0.__class__}}'.format({})", "'{{a.__class__}}'.format_map({{'a': {}}})", "'%r' % {}.__class__"),
    *("{}.__init__.__globals__", "{}.__class__.__mro__[-1].__subclasses__()", "{}.__getattribute__('__class__')"),
    *("{}.__reduce_ex__(2)", "{}.__dict__", "{}.__self__", "{}.__func__", "{}.gi_frame.f_globals", "{}.mro()"),
    *("{}.__call__.__globals__", "{}['__globals__']['os'].popen('id').read()", "{}._TemplateReference__context"),
    *("[{}] | groupby('__class__') | list", "[{}] | selectattr('__class__') | map(attribute='__class__') | list"),
)
FRAMES = (
    "{{{{ {} }}}}",
    "x{{{{ {} }}}}",
    "{{% set a = {} %}}{{{{ a }}}}",
    "{{% for a in [{}] %}}{{{{ a }}}}{{% endfor %}}",
    "{{% macro m(a) %}}{{{{ a }}}}{{% endmacro %}}{{{{ m({}) }}}}",
    "{{{{ [{}] }}}}",
    "{{{{ {{'a': {}}} | tojson }}}}",
)
ENDLESS = (
    *("{{ 'a' * 10**N }}", "{{ 9 ** 9 ** N }}", "{{ range(10**N) | list }}", "{{ 'x'.ljust(10**N) }}"),
    *("{{ '%01000000000d' % N }}", "{{ '{:>1000000000}'.format(N) }}", "{{ [0] * 10**N }}", "{{ 'a'.zfill(10**N) }}"),
    *("{% for a in range(99999) %}{% for b in range(99999) %}{{ a * b ** N }}{% endfor %}{% endfor %}",),
    *("{% macro m(a) %}{{ m(a + 1) }}{% endmacro %}{{ m(N) }}", "{{ 'aaaa'.replace('a', 'a' * 10**N) }}"),
    *("{{ (('a' * 9999).split('') | join('a' * 9999)) * 10**N }}", "{{ 'a'.join(range(10**N)) }}"),
    *("{{ ('a' * 99999) | replace('', 'b' * 99999 * N) }}", "{{ 1.0 * 10 ** 10 ** N }}", "{{ 'a' | center(10**N) }}"),
    *("{{ 'x'.encode('punycode') * N }}", "{{ 'a'.expandtabs(10**N) }}", "{{ (1 << 10**N) }}", "{{ 2 ** -(10**N) }}"),
)


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """A quarter of them works without end."""
    endless = [code.replace("N", str(rng.randint(8, 12))) for code in rng.choices(ENDLESS, k=count // 4)]
    ways = rng.sample(list(product(OBJECTS, ROUTES, FRAMES)), count - len(endless))
    reaching = [frame.format(route.format(target)) for target, route, frame in ways]
    for source in (*endless, *reaching):
        yield _attack(source)


def _attack(source: str) -> Attack:
    return Attack(source, partial(_gets_through, source))


class _Guard:
    """What evaluates a template."""

    render: Callable[[str, Mapping[str, Json]], Json] = staticmethod(render_text)


def _gets_through(source: str) -> bool:
    """Whether it gives away something that is no data. One that is given an ordinary value has reached nothing."""
    try:
        return INSIDES.search(str(_Guard.render(source, SCOPE))) is not None
    except TemplateFailure:
        return False


def _plainly(source: str, scope: Mapping[str, Json]) -> Json:
    return Environment().from_string(source).render(scope)


def _disable_guard() -> AbstractContextManager[object]:
    """Plain Jinja."""
    return patch.object(_Guard, "render", staticmethod(_plainly))


CLASS = AttackClass(
    "templates",
    _attacks,
    (
        _attack("{{ ''.__class__.__mro__[-1].__subclasses__() }}"),
        _attack("{{ '{0.__class__}'.format(1) }}"),
        _attack("{{ rows | map(attribute='__class__') | list }}"),
    ),
    _disable_guard,
)
