"""What the compiler says of SQL. False findings are worse than missed ones: much that is valid must give none."""

from __future__ import annotations

import logging

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.source import SourceFile
from noetl_compiler.sql_syntax import find_syntax_error, quoted_templates

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workflow:
  - step: start
    tool:
      kind: postgres
      auth: pg
"""


def findings(fields: str) -> list[Diagnostic]:
    return [
        diagnostic
        for diagnostic in compile_text(HEAD + fields).diagnostics
        if diagnostic.code in (Code.SQL_SYNTAX, Code.QUOTED_TEMPLATE)
    ]


@pytest.mark.parametrize(
    ("dialect", "sql", "near"),
    [
        ("postgres", "select * form t", "t"),
        ("postgres", "selct 1", "1"),
        ("postgres", "select 1 from", "from"),
        ("postgres", "select * from t where a = 1 and and b = 2", "and"),
        ("postgres", "update t set a = where b", "where"),
        ("postgres", "select 1; selct 2", "2"),
        ("postgres", "select '{{ a }}' form t x", "t"),
        ("postgres", "insert into {{ t }} values (1); selct 2", "2"),
        ("postgres", "selct 1 from {{ t }}", "1"),
        ("duckdb", "select * form t", "t"),
        ("snowflake", "select * form t", "t"),
    ],
)
def test_a_certain_mistake_has_its_place(dialect: str, sql: str, near: str) -> None:
    problem = find_syntax_error(sql, dialect)
    assert problem is not None
    assert sql[problem.start : problem.end] == near


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("postgres", "select %s, $1, :name, %(name)s"),
        ("postgres", "insert into t select 1 from a cross join f(1) as b(c) on conflict (c) do nothing"),
        ("postgres", "insert into t values (1) on conflict (a) do update set a = excluded.a returning *"),
        ("postgres", "do $$ begin x := 1; end $$"),
        ("postgres", "vacuum analyze t; listen c; copy t from stdin; grant select on t to x"),
        ("postgres", "create function f() returns int language sql as $f$ select 1; $f$"),
        ("postgres", "select a -> 'b' ->> 'c', d @> '{}'::jsonb, e #>> '{a,b}' from t for update skip locked"),
        ("postgres", "with a as materialized (select 1) select * from a, lateral (select 2) b"),
        ("postgres", "merge into t using s on t.a = s.a when matched then update set b = s.b"),
        ("postgres", "select count(*) filter (where a), array[1, 2], row(1, 2), e'\\n' from t"),
        ("postgres", "select cidr '10.0.0.0/8' as c, macaddr '08:00:2b:01:02:03'"),
        ("postgres", "create function f(a int[], b numeric(3)[]) returns int language sql as 'select 1'"),
        ("postgres", "create view v with (security_barrier) as select 1"),
        ("postgres", "create operator = (leftarg = t, rightarg = t, procedure = f, commutator = =)"),
        ("postgres", "-- only a comment"),
        ("postgres", ""),
        ("postgres", "{{ statement }}"),
        ("postgres", "select * from {{ table }} {{ where }} {{ order }} 1 2"),
        ("postgres", "select {{ a }}_{{ b }} from public.{{ t }} limit {{ n }} offset {{ m }} x y"),
        ("postgres", "insert into t values {% for x in rows %}({{ x }}){% endfor %}"),
        ("postgres", "select 1 {# selct #} 2 3"),
        ("postgres", "select '{{ a }}{{ quote }}"),
        ("duckdb", "install httpfs; load httpfs; attach 'x' as y (type postgres)"),
        ("duckdb", "copy (select 1) to 'a.parquet' (format parquet); from read_csv('a.csv')"),
        ("duckdb", "create or replace secret s (type gcs, key_id 'a'); select * exclude (a) from t"),
        ("duckdb", "select struct_pack(a := 1), {'a': 1}, [x for x in [1, 2]] from t qualify true"),
        ("snowflake", "copy into @stage from t file_format = (type = csv); use warehouse w"),
        ("snowflake", "select '%s', %s as a from t where b = %s and c in (%s, %s)"),
        ("snowflake", "select a:b.c::string, $1 from t, lateral flatten(input => a)"),
        ("postgres", "select " + "(" * 2000 + "1" + ")" * 2000),
        ("postgres", "selct 1 " * 10_000),
    ],
)
def test_sql_that_may_be_valid_is_not_reported(dialect: str, sql: str) -> None:
    assert find_syntax_error(sql, dialect) is None


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert find_syntax_error("vacuum analyze t", "postgres") is None
    assert caplog.records == []
    assert not logging.getLogger("sqlglot").disabled


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("select '{{ a }}'", ["{{ a }}"]),
        ("select '{{ a[''b''] }}', \"{{ c }}\", {{ d }}", ["{{ a['b'] }}"]),
        ("select 'it''s {{ a }}'", ["it's {{ a }}"]),
        ("with x as (select 1) select '%{{ a }}%' from x", ["%{{ a }}%"]),
        ("select 1; insert into t values ('{{ a }}', '{{ b }}')", ["{{ a }}", "{{ b }}"]),
        ("copy t from '{{ a }}'", []),
        ("create table t (a text default '{{ a }}')", []),
        ("select now() - interval '{{ a }} days'", []),
        ("select $j${{ a }}$j$ -- '{{ b }}'", []),
        ("select 'a', {{ a }}", []),
        ("select 'a", []),
        ("select '{{ a }}", []),
    ],
)
def test_templates_in_quotes(sql: str, texts: list[str]) -> None:
    quoted_spans = quoted_templates(sql, "postgres")
    assert [template.text for template in quoted_spans] == texts
    assert all(template.is_alone is (";" not in sql) for template in quoted_spans)


@pytest.mark.parametrize(
    "template", ["execution_id", "job.uuid", "a | int", 'a | replace("\'", "\'\'")', "a | length", "a | tojson"]
)
def test_values_that_bring_no_quote_are_not_reported(template: str) -> None:
    assert findings(f"      query: |\n        select '{{{{ {template} }}}}'\n") == []


STYLES = {
    "literal": "      query: |\n        select 1\n        form t x\n",
    "folded": "      query: >-\n        select 1\n        form t x\n",
    "double": '      query: "select 1\\nform t x"\n',
    "single": "      query: 'select ''a'' form t x'\n",
    "plain": "      query: select 1 form t x\n",
    "a list": "      commands: [select 1, select 1 form t x]\n",
    "script": "      script: select 1 form t x\n",
}


@pytest.mark.parametrize("style", STYLES)
def test_the_position_is_exact_in_every_style(style: str) -> None:
    (diagnostic,) = findings(STYLES[style])
    assert (diagnostic.code, diagnostic.message) == (Code.SQL_SYNTAX, 'syntax error in SQL near "t"')
    assert SourceFile("", HEAD + STYLES[style]).slice(diagnostic.span) == "t"


def test_the_remedy_is_the_parameter_of_the_database() -> None:
    (diagnostic,) = findings("      query: select '{{ workload.a }}-{{ workload.b }}'\n")
    assert diagnostic.hint == 'write $1 without quotes, and params: ["{{ workload.a }}-{{ workload.b }}"]'
    (diagnostic,) = findings("      query: select 1; select '{{ workload.a }}'\n")
    assert diagnostic.hint.endswith("; params need one statement in the task")
