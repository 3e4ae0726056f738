"""The tables as data and the .cql files say the same; the files hold to the rules of the schema."""

from __future__ import annotations

import re

import pytest

from waterclock.model.errors import Conflict
from waterclock.store.migrate import Migration, migrations, pending
from waterclock.store.tables import TABLES, Table

OPTIONS = {
    "jobs": ("UnifiedCompactionStrategy", 864_000),
    "job_versions": ("UnifiedCompactionStrategy", 864_000),
    "jobs_by_tenant": ("UnifiedCompactionStrategy", 864_000),
    "due": ("UnifiedCompactionStrategy", 93_600),
    "runs": ("TimeWindowCompactionStrategy", 86_400),
    "runs_by_drawer": ("TimeWindowCompactionStrategy", 86_400),
    "attempts": ("TimeWindowCompactionStrategy", 86_400),
    "failures": ("TimeWindowCompactionStrategy", 86_400),
    "dag_nodes": ("TimeWindowCompactionStrategy", 86_400),
    "letters": ("TimeWindowCompactionStrategy", 86_400),
    "audit": ("TimeWindowCompactionStrategy", 86_400),
    "api_keys": ("UnifiedCompactionStrategy", 864_000),
    "api_answers": ("TimeWindowCompactionStrategy", 86_400),
    "api_operations": ("TimeWindowCompactionStrategy", 86_400),
    "calendars": ("UnifiedCompactionStrategy", 864_000),
    "calendar_names": ("UnifiedCompactionStrategy", 864_000),
    "calendar_jobs": ("UnifiedCompactionStrategy", 864_000),
    "run_logs": ("TimeWindowCompactionStrategy", 86_400),
    "upkeep": ("UnifiedCompactionStrategy", 864_000),
    "backfills": ("UnifiedCompactionStrategy", 864_000),
}


def statement_of(table: Table) -> str:
    found = [text for each in migrations() for text in each.statements if f"EXISTS {table.name} (" in text]
    assert len(found) == 1
    return " ".join(found[0].split())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_tables_columns_and_types_are_those_of_its_file(table: Table) -> None:
    body = statement_of(table).partition("( ")[2].partition(", PRIMARY KEY")[0]
    later = f"ALTER TABLE {table.name} ADD IF NOT EXISTS ("
    added = [text for each in migrations() for text in each.statements if text.startswith(later)]
    columns = ", ".join([body, *(text.removeprefix(later).removesuffix(")") for text in added)])

    assert set(columns.split(", ")) == {f"{column.name} {column.type}" for column in table.columns}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_tables_key_and_order_are_those_of_its_file(table: Table) -> None:
    text = statement_of(table)
    partition = ", ".join(column.name for column in table.partition)
    key = [f"({partition})" if len(table.partition) > 1 else partition, *(column.name for column in table.clustering)]
    order = ", ".join(
        f"{column.name} {'DESC' if falls else 'ASC'}"
        for column, falls in zip(table.clustering, table.descending, strict=True)
    )

    assert f"PRIMARY KEY ({', '.join(key)})" in text
    assert not table.clustering or f"CLUSTERING ORDER BY ({order})" in text


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_spells_out_its_options(table: Table) -> None:
    strategy, grace_s = OPTIONS[table.name]
    text = statement_of(table)

    assert f"compaction = {{'class': '{strategy}'" in text
    assert f"gc_grace_seconds = {grace_s}" in text
    assert f"default_time_to_live = {table.ttl_s}" in text


def test_a_stamped_column_is_one_of_the_tables() -> None:
    assert all(not table.stamped or table.stamped in {c.name for c in table.regular} for table in TABLES)


def test_a_statement_that_may_not_run_twice_is_refused() -> None:
    for text in ("DROP TABLE due;", "CREATE TABLE due (a int);", "ALTER TABLE due DROP env;", "INSERT INTO due ..."):
        with pytest.raises(ValueError, match="may run twice"):
            _ = Migration(9, "009_x.cql", f"-- a remark\n{text}").statements


def test_a_semicolon_in_a_remark_ends_no_statement() -> None:
    text = "-- one; two\nALTER TABLE due ADD IF NOT EXISTS x int;\n  -- three;\n"

    assert Migration(9, "009_x.cql", text).statements == ["ALTER TABLE due ADD IF NOT EXISTS x int"]


def test_what_has_run_is_not_pending() -> None:
    known = migrations()
    applied = {each.version: (each.name, each.sha256) for each in known[:2]}

    assert pending(known, applied) == known[2:]


def test_a_file_that_was_changed_after_it_ran_is_refused_by_name() -> None:
    known = migrations()

    with pytest.raises(Conflict, match=re.escape(f"Schema 2 of the keyspace ({known[1].name})")):
        pending(known, {2: (known[1].name, "0" * 64)})


def test_a_schema_of_a_later_release_is_refused() -> None:
    with pytest.raises(Conflict, match="has schema 99"):
        pending(migrations(), {99: ("099_later.cql", "0" * 64)})
