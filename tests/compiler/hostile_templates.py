"""Templates that go on for as long as their budget lasts, each with another operation."""

from __future__ import annotations

import datetime
from typing import Any

__all__ = ["HOSTILE", "HOSTILE_SCOPE"]

_BEFORE = (
    "{% set z = 2 ** 4900 + 1 %}{% set x = z * z - 3 %}{% set nines = '9' * 3000 %}{% set fl = [1.1e300] * 1000 %}"
    "{% set w = 'ab ' * 1000 %}{% set ns = namespace(v=0) %}{% macro mac() %}{% endmacro %}"
    "{% macro mac1(q) %}{{ q }}{% endmacro %}{% macro mac2() %}{{ caller() }}{% endmacro %}"
)
_LOOP = "{% for a in range(100000) %}BODY{% endfor %}"

_BODIES = r"""
{% set y = x // z %}
{% set y = x % z %}
{% set y = x / (z * z // 9) %}
{% set y = x - z %}
{% set y = x < z %}
{% set y = z * z %}
{% set y = x ~ '' %}
{{ z }}
{% set y = nines | int %}
{% set y = nines | float %}
{% set y = '[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0]' | from_json %}
{% set y = '{"a":1,"b":[{}]}' | from_json %}
{% set y = '%f' % 1e308 %}
{% set y = '%.9999f' % 1e308 %}
{% set y = '%s' % x %}
{% set y = '%x' % x %}
{% set y = '{:f}'.format(1e308) %}
{% set y = '{:.9999f}'.format(1e308) %}
{% set y = '{}'.format(x) %}
{% set y = '{:x}'.format(x) %}
{% set y = '{:,}'.format(z) %}
{% set y = '{0[0][0][0]}'.format([[[1]]]) %}
{% set y = fl | string %}
{% set y = fl ~ '' %}
{% set y = fl | tojson %}
{% set y = fl | to_json(2) %}
{% set y = fl | join %}
{% set y = fl | sum %}
{% set y = fl | sort %}
{% set y = fl | unique | list %}
{% set y = fl | list %}
{% set y = fl[:] %}
{% set y = fl + fl %}
{% set y = fl * 2 %}
{% set y = fl | reverse | list %}
{% set y = fl | map('round', 300) | list %}
{% set y = fl | max %}
{% set y = big | join(',') %}
{% set y = big | sum %}
{% set y = big | string %}
{% set y = big | tojson %}
{% set y = big | to_json(1) %}
{% set y = big | batch(2) | list %}
{% set y = big | slice(500) | list %}
{% set y = big | sort %}
{% set y = big | sort(reverse=true) %}
{% set y = big | unique | list %}
{% set y = big | groupby('a') %}
{% set y = big | select | list %}
{% set y = big | select('in', big) | list %}
{% set y = big | reject('odd') | list %}
{% set y = big | map('string') | list %}
{% set y = big | map('string') | sort %}
{% set y = big | map('string') | unique | list %}
{% set y = big | map('upper') | map('trim') | map('length') | sum %}
{% set y = big | map('default', 1) | list %}
{% set y = big | map(attribute='a.b.c.d', default=1) | list %}
{% set y = big | selectattr('a', 'defined') | list %}
{% set y = rows | map(attribute='a.b') | list %}
{% set y = rows | selectattr('a.b', 'eq', 1) | list %}
{% set y = rows | rejectattr('a.b', 'eq', 1) | list %}
{% set y = rows | groupby('a.b') %}
{% set y = rows | sort(attribute='a.b') %}
{% set y = rows | sort(attribute='k,a.b') %}
{% set y = rows | unique(attribute='k') | list %}
{% set y = rows | sum(attribute='k') %}
{% set y = rows | max(attribute='k') %}
{% set y = rows | join(',', attribute='k') %}
{% set y = rows | tojson %}
{% set y = rows | string %}
{% set y = rows == rows[:] %}
{% set y = rows | list %}
{% set y = rows | first %}
{% set y = rows | map('tojson') | list %}
{% set y = rows | map('dictsort') | list %}
{% set y = rows | map('items') | map('list') | list %}
{% set y = wide == wide[:] %}
{% set y = d | dictsort %}
{% set y = d | dictsort(by='value') %}
{% set y = d | items | list %}
{% set y = d.items() | list %}
{% set y = d.values() | list %}
{% set y = d.keys() | list %}
{% set y = d.copy() %}
{% set y = dict(d) %}
{% set y = dict(d, q=1) %}
{% set y = d | list %}
{% set y = d | tojson %}
{% set y = d | length %}
{% set y = d.get('k5') %}
{% set y = d['k5'] %}
{% set y = d.k5 %}
{% set y = d.nope is defined %}
{% set y = r.a.b.c.d.e.f.g is defined %}
{% set y = r['a']['b']['c']['d'] is defined %}
{% set y = text[1:] %}
{% set y = text.upper() %}
{% set y = text | upper %}
{% set y = text | lower %}
{% set y = text | capitalize %}
{% set y = text | title %}
{% set y = text.title() %}
{% set y = text.swapcase() %}
{% set y = text.casefold() %}
{% set y = text | wordcount %}
{% set y = w | wordcount %}
{% set y = w | wordwrap(10) %}
{% set y = w | wordwrap(1) %}
{% set y = text | wordwrap(5) %}
{% set y = w | title %}
{% set y = w | capitalize %}
{% set y = w | urlencode %}
{% set y = text | urlencode %}
{% set y = ('é' * 100) | urlencode %}
{% set y = d | urlencode %}
{% set y = w | escape %}
{% set y = ('<' * 1000) | escape %}
{% set y = w | replace('a', 'bb') %}
{% set y = w | replace('a', 'bb', 3) %}
{% set y = w.replace('a', 'bb') %}
{% set y = w.replace('', 'x') %}
{% set y = w | replace('', 'x') %}
{% set y = w.split() %}
{% set y = w.split(' ') %}
{% set y = w.rsplit(' ') %}
{% set y = w.splitlines() %}
{% set y = ('a\n' * 500).splitlines() %}
{% set y = w.partition('zz') %}
{% set y = w.count('ab') %}
{% set y = w.find('b a b') %}
{% set y = w.index('a') %}
{% set y = w.strip(' ab') %}
{% set y = w | trim(' ab') %}
{% set y = w.encode() %}
{% set y = w.encode('utf-16') %}
{% set y = w.encode().hex() %}
{% set y = w | b64encode %}
{% set y = w | b64encode | b64decode %}
{% set y = w | indent(10) %}
{% set y = ('a\n' * 500) | indent(10) %}
{% set y = w | truncate(10) %}
{% set y = w | truncate(2000) %}
{% set y = w | center(5000) %}
{% set y = w.isalpha() %}
{% set y = w.isprintable() %}
{% set y = w.istitle() %}
{% set y = w | list %}
{% set y = w | reverse %}
{% set y = w | first %}
{% set y = w | join(',') %}
{% set y = w | unique | list %}
{% set y = w | map('upper') | list %}
{% set y = w | sort %}
{% set y = w | batch(3) | list %}
{% set y = w | max %}
{% set y = 'b a b' in w %}
{% set y = w == w ~ '' %}
{% set y = w < w ~ 'x' %}
{% set y = w ~ w %}
{% set y = w + w %}
{% set y = w * 3 %}
{% set y = w | length %}
{% set y = w | string %}
{% set y = ','.join(big | map('string')) %}
{% set y = ','.join(w) %}
{% set y = '%s %s %s' % (a, a, a) %}
{% set y = '%s %s %s' | format(a, a, a) %}
{% set y = '{} {} {}'.format(a, a, a) %}
{% set y = '%(a)s' % r2 %}
{% set y = '{a}'.format(a=1) %}
{% set y = '{a}'.format_map(r2) %}
{% set y = '{!r}'.format(big) %}
{% set y = '{!r}'.format(w) %}
{% set y = '{:>20}'.format(a) %}
{% set y = '%r' % w %}
{% set y = '%s' % (big,) %}
{% set y = a | filesizeformat %}
{% set y = 1e300 | filesizeformat %}
{% set y = 1e300 | round(9) %}
{% set y = 1e-300 | round(9) %}
{% set y = a | round(-3) %}
{% set y = 1.5 | round(300, 'floor') %}
{% set y = 1e308 ~ '' %}
{{ 1.1e300 }}
{{ a }}{{ a }}{{ a }}
{{ none }}{{ true }}
{{ big }}
{{ rows }}
{{ d }}
{{ [] }}
{{ {} }}
{{ [[], []] }}
{{ (1, (2, 3)) }}
{{ (a,) }}
{% set y = [a] %}
{% set y = [a, [a, [a, [a]]]] %}
{% set y = (a, a) %}
{% set y = {'a': a} %}
{% set y = {'a': {'b': a}} %}
{% set y = dict(a=a) %}
{% set y = namespace(a=a) %}
{% set ns.v = a %}
{% set ns.l = [a] %}
{% set y = range(10) %}
{% set y = range(10) | list %}
{% set y = range(1000) | list %}
{% set y = range(1000) | sum %}
{% set y = -1 in range(1000) %}
{% set y = 'x' in range(10000) %}
{% set y = 'x' in d.values() %}
{% set y = d.nope %}
{% set y = mac.name %}
{% set y = a.real %}
{% set y = a.nope %}
{% set y = 'x'.nope %}
{% set y = ns.v %}
{% set y = now.year %}
{% set y = d.items() == d.items() %}
{% set y = 'x' is in range(10000) %}
{% set y = a | abs %}
{% set y = a | int %}
{% set y = 'x' | int %}
{% set y = 'x' | int(5, 16) %}
{% set y = '12' | float %}
{% set y = a is divisibleby(3) %}
{% set y = a is odd %}
{% set y = a is string %}
{% set y = a is in big %}
{% set y = a is eq 1 %}
{% set y = a is iterable %}
{% set y = a is sequence %}
{% set y = w is upper %}
{% set y = nope is defined %}
{% set y = nope | default(1) %}
{% set y = nope.x.y.z | default(1) %}
{% set y = 'upper' is filter %}
{% set y = a == 1 and a < 2 or a > 3 %}
{% set y = 1 < a < 3 < 4 < 5 %}
{% set y = a if a else w %}
{% set y = a in [1, 2, 3] %}
{% set y = a in (1, 2, 3) %}
{% set y = a not in big %}
{% set y = 'k5' in d %}
{% set y = 'zz' in big %}
{% set y = a.bit_length() %}
{% set y = 1.5.is_integer() %}
{% set y = big.count(5) %}
{% set y = big.index(999) %}
{% set y = big.copy() %}
{% set y = big[-1] %}
{% set y = big[::2] %}
{% set y = big | last %}
{% set y = big | length %}
{% set y = loop.index + loop.revindex + loop.length %}
{% set y = loop.previtem %}
{% set y = loop.changed(a) %}
{% set y = loop.cycle(a, 2, 3) %}
{% set y = loop.last %}
{% set y %}{{ a }}{% endset %}
{% set y %}x{% endset %}
{% set y, q = a, a %}
{% set y, q = [a, a] %}
{% with y = a %}{{ y }}{% endwith %}
{% filter upper %}x{% endfilter %}
{% set y = mac() %}
{% set y = mac1(a) %}
{% call mac2() %}x{% endcall %}
{% for b in big %}{% endfor %}
{% for b in big if b > 2000 %}{% endfor %}
{% for b in big if b is odd %}{% endfor %}
{% for b in big %}{% else %}{% endfor %}
{% for k, v in d.items() %}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}
{% for c in w %}{{ c }}{% endfor %}
{% for b in big recursive %}{% endfor %}
{% for b in [] %}{% endfor %}
{% if a %}x{% endif %}
{% if a > 5 %}x{% elif a > 3 %}y{% else %}z{% endif %}
xyz
{{ r2.a }}{{ r2.b }}{{ r2.a }}
{{ r2['a'] }}
{% set y = rows[0].a.b %}
{{ now }}
{% set y = [now] %}
{{ [now, big] }}
{{ [now] + big }}
{{ now.isoformat() }}
{{ now.strftime('%Y' * 100) }}
{% set y = uni.upper() %}
{% set y = uni | upper %}
{% set y = uni | title %}
{% set y = dotted.lower() %}
{% set y = dotted | lower %}
{% set y = dotted | capitalize %}
{% set y = uni.swapcase() %}
{% set y = dotteds | sort %}
{% set y = dotteds | unique | list %}
{% set y = dotteds | map('lower') | list %}
{% set y = uni is upper %}
{% set y = uni.casefold() %}
{% set y = uni | list %}
{% set y = [uni] %}
{% set y = unis[:] %}
{% set y = uni.encode() %}
{% set y = uni | tojson %}
{% set y = uni | wordwrap(3) %}
{% set y = uni | urlencode %}
{% set y = uni == uni ~ 'x' %}
{% set y = -a %}
{% set y = a - 1 + 2 - 3 %}
{% set y = a * 2 + 1 %}
{% set y = 2.5 ** 3 %}
{% set y = not a %}
{% set y = 2 ** 4998 %}
""".strip().splitlines()
"""Bodies of a loop."""

_LONG_BODIES = [
    "{{ a%s }}" % (" + 1" * 90),
    "{{ a%s }}" % (" ~ 1" * 90),
    "{{ a%s }}" % (" | abs" * 90),
    "{{ a%s }}" % (" | string" * 90),
    "{% set y = [" + "a," * 90 + "] %}",
    "{% set y = {" + ",".join(f"'k{key}': a" for key in range(90)) + "} %}",
    "{% set y = 'x'" + ".upper()" * 50 + " %}",
    "{{ a }}" * 100,
    "{% if a %}x{% endif %}" * 100,
    "{% set y = a %}" * 100,
    "{% for b in [] %}{% endfor %}" * 100,
]

_WHOLE = r"""
{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}
{% macro f(n) %}{% for i in range(3) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endfor %}{% endmacro %}{{ f(60) }}
{{ ([1] * 1000000) | tojson | length }}
{{ ([1] * 1000000) | string | length }}
{{ ([1.5] * 3000000) }}
{{ ([1.1e300] * 1000000) | string | length }}
{{ [[]] * 400000 }}
{{ [[[]]] * 400000 }}
{{ [[[[[[]]]]]] * 400000 }}
{{ [{}] * 400000 }}
{{ [{'a': [{}]}] * 400000 }}
{{ [(1,)] * 400000 }}
{{ empty2 }}
{{ texts }}
{{ [ints] }}
{{ rows3 }}
{{ ints | sort | length }}
{{ ints | unique | list | length }}
{{ ints | tojson | length }}
{{ ints | join(',') | length }}
{{ ints | map('string') | list | length }}
{{ ints | sum }}
{{ ints | max }}
{{ ints == ints[:] }}
{{ ints | batch(3) | list | length }}
{{ texts | sort | length }}
{{ texts | map('upper') | join | length }}
{{ texts | unique | list | length }}
{{ rows3 | groupby('id') | length }}
{{ rows3 | selectattr('id', 'gt', 5) | map(attribute='name') | list | length }}
{{ rows3 | tojson | length }}
{{ rows3 | sort(attribute='name') | length }}
{{ ('1,' * 900000 ~ '1') | length }}
{{ ('[' ~ '1,' * 900000 ~ '1]') | from_json | length }}
{{ ('[' ~ '1.1e300,' * 300000 ~ '1]') | from_json | length }}
{{ ('[' ~ '"a",' * 300000 ~ '1]') | from_json | length }}
{{ ('[' ~ '{},' * 300000 ~ '1]') | from_json | length }}
{{ ('[' ~ ('9' * 290 ~ ',') * 30000 ~ '1]') | from_json | length }}
{{ ('[' ~ ('1' * 18 ~ ',') * 300000 ~ '1]') | from_json | length }}
{{ ('a ' * 100000) | wordwrap(3) | length }}
{{ ('a b-c ' * 100000) | title | length }}
{{ ('a ' * 500000) | wordcount }}
{{ ('é' * 100000) | urlencode | length }}
{{ ('x' * 500000) | list | length }}
{{ ('<' * 1000000) | e | length }}
{{ ('a,' * 200000).split(',') | length }}
{{ ('ab' * 1000000) | replace('a', 'c') | length }}
{{ ('x' * 300) | wordwrap(1) | length }}{{ ('x' * 30000) | wordwrap(1) | length }}
{{ ('x' * 90000) | wordwrap(10) | length }}
{% set x = 'a' * 9000000 %}{% for i in range(1000) %}{% set y = x[1:] %}{% endfor %}
{{ 'a' * 9900000 }}{% for a in range(100000) %}{% set y = fl | string %}{% endfor %}
{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}
{% set ns = namespace(l=[]) %}{% for a in range(100000) %}{% set ns.l = ns.l + [a] %}{% endfor %}
{% set ns = namespace(l='') %}{% for a in range(100000) %}{% set ns.l = ns.l ~ a %}{% endfor %}
{% set ns = namespace(l={}) %}{% for a in range(100000) %}{% set ns.l = dict(ns.l, a=a) %}{% endfor %}
{% set ns = namespace(l=[]) %}{% for a in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}
""".strip().splitlines()

HOSTILE = [*(_BEFORE + _LOOP.replace("BODY", body) for body in (*_BODIES, *_LONG_BODIES)), *_WHOLE]

_WHEN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOSTILE_SCOPE: dict[str, Any] = {
    "big": list(range(1000)),
    "wide": [list(range(1000)), list(range(1000))],
    "text": "x" * 10_000,
    "rows": [{"a": {"b": index % 7}, "k": index, "n": f"n{index}"} for index in range(300)],
    "d": {f"k{index}": index for index in range(1000)},
    "r": {"a": {"b": {"c": {"d": 1}}}},
    "r2": {"a": 1, "b": "x"},
    "uni": "éß" * 500,
    "unis": ["é"] * 1000,
    "dotted": "İ" * 1000,
    "dotteds": ["İ" * 50] * 20,
    "now": _WHEN,
    "empty2": [[[]] for _ in range(100_000)],
    "ints": list(range(1_000_000)),
    "texts": [f"t{index}" for index in range(300_000)],
    "rows3": [{"id": index, "name": "n" * 20, "tags": ["a", "b"]} for index in range(30_000)],
}
