"""The tables of the state file, by version, and which of their rows a damaged file's successor takes over. Pure.

Every table's last column is the row's checksum (`elf.agents.store.checksums`); a table that a later version adds has
one too, and a line in `TABLES`. Statements are written out here, never put together.
"""

from __future__ import annotations

from typing import NamedTuple

#: What each version added to the one before.
STEPS = (
    """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sources (source TEXT PRIMARY KEY, positions BLOB NOT NULL, counters BLOB NOT NULL,
                      sequence INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE workers (tree BLOB PRIMARY KEY, progress BLOB NOT NULL, open BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE snapshots (tree BLOB NOT NULL, through INTEGER NOT NULL, payload BLOB,
                        PRIMARY KEY (tree, through)) WITHOUT ROWID;
CREATE TABLE masters (app BLOB PRIMARY KEY, job BLOB NOT NULL, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE panes (app BLOB NOT NULL, interval INTEGER NOT NULL, block BLOB NOT NULL,
                    PRIMARY KEY (app, interval)) WITHOUT ROWID;
CREATE TABLE records (app BLOB NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
                      PRIMARY KEY (app, key)) WITHOUT ROWID;
""",
    """
CREATE TABLE controls (tree BLOB PRIMARY KEY, term INTEGER NOT NULL, position INTEGER NOT NULL,
                       floor_term INTEGER NOT NULL, floor_position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE control_entries (tree BLOB NOT NULL, term INTEGER NOT NULL, position INTEGER NOT NULL, body BLOB NOT NULL,
                              PRIMARY KEY (tree, term, position)) WITHOUT ROWID;
""",
    """
CREATE TABLE history (app BLOB NOT NULL, kind INTEGER NOT NULL, interval INTEGER NOT NULL, block BLOB NOT NULL,
                      PRIMARY KEY (app, kind, interval)) WITHOUT ROWID;
INSERT INTO history SELECT app, 3, interval, block FROM panes;
DROP TABLE panes
""",
    # Which blocks there are, without a walk over the blocks themselves.
    """
CREATE INDEX history_places ON history (app, kind, interval)
""",
    """
ALTER TABLE meta ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET checksum = row_checksum(key, value);
ALTER TABLE sources ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE sources SET checksum = row_checksum(source, positions, counters, sequence);
ALTER TABLE workers ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE workers SET checksum = row_checksum(tree, progress, open);
ALTER TABLE snapshots ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE snapshots SET checksum = row_checksum(tree, through, payload);
ALTER TABLE masters ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE masters SET checksum = row_checksum(app, job, state);
ALTER TABLE history ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE history SET checksum = row_checksum(app, kind, interval, block);
ALTER TABLE records ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE records SET checksum = row_checksum(app, key, version, body);
ALTER TABLE controls ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE controls SET checksum = row_checksum(tree, term, position, floor_term, floor_position);
ALTER TABLE control_entries ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE control_entries SET checksum = row_checksum(tree, term, position, body)
""",
    """
CREATE TABLE root_groups (tree BLOB PRIMARY KEY, term INTEGER NOT NULL, vote TEXT NOT NULL,
                          checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE group_entries (tree BLOB NOT NULL, position INTEGER NOT NULL, term INTEGER NOT NULL, kind INTEGER NOT NULL,
                            body BLOB NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (tree, position)) WITHOUT ROWID
""",
    # Other agents' snapshots and checkpoints, kept for them. Rowids: an index must not carry the blobs around.
    """
CREATE TABLE held_snapshots (tree BLOB NOT NULL, agent TEXT NOT NULL, since INTEGER NOT NULL, through INTEGER NOT NULL,
                             payload BLOB, checksum INTEGER NOT NULL, PRIMARY KEY (tree, agent, through));
CREATE TABLE held_checkpoints (source TEXT NOT NULL, address TEXT NOT NULL, agent TEXT NOT NULL,
                               number INTEGER NOT NULL, kept_ms INTEGER NOT NULL, body BLOB NOT NULL,
                               checksum INTEGER NOT NULL, PRIMARY KEY (source, address))
""",
    # Of workers that have very many intervals open: what does not change with each checkpoint.
    """
CREATE TABLE open_tables (tree BLOB NOT NULL, number INTEGER NOT NULL, block BLOB NOT NULL, checksum INTEGER NOT NULL,
                          PRIMARY KEY (tree, number))
""",
    # What agents have said of their snapshots; a row that was damaged before stays so.
    """
ALTER TABLE held_snapshots RENAME TO held_before;
CREATE TABLE held_snapshots (tree BLOB NOT NULL, agent TEXT NOT NULL, since INTEGER NOT NULL, through INTEGER NOT NULL,
                             payload BLOB, word BLOB, checksum INTEGER NOT NULL, PRIMARY KEY (tree, agent, through));
INSERT INTO held_snapshots SELECT tree, agent, since, through, payload, NULL,
    CASE checksum WHEN row_checksum(tree, agent, since, through, payload)
    THEN row_checksum(tree, agent, since, through, payload, NULL) ELSE checksum END FROM held_before;
DROP TABLE held_before
""",
)
#: Version of these tables; an older file is brought up to it, a newer one is refused, never guessed at.
SCHEMA_VERSION = len(STEPS)
#: The first version whose rows have checksums.
CHECKED_VERSION = 5


class Table(NamedTuple):
    """How one table's rows are looked through when the file is opened, and taken over when the file is damaged.

    Attributes:
        name: the table's.
        forward: reads all rows.
        backward: reads all rows, last first: so those behind a damaged page are reached, too.
        own: it is the agent's own account of what it has read and said; if a row is damaged it must begin anew.
        insert: writes a row to the file's successor; empty where that has no use for it.
    """

    name: str
    forward: str
    backward: str
    own: bool
    insert: str = ""


META = Table("meta", "SELECT * FROM meta", "SELECT * FROM meta ORDER BY key DESC", own=True)
TABLES = (
    META,
    Table("sources", "SELECT * FROM sources", "SELECT * FROM sources ORDER BY source DESC", own=True),
    Table("workers", "SELECT * FROM workers", "SELECT * FROM workers ORDER BY tree DESC", own=True),
    Table(
        "open_tables",
        "SELECT * FROM open_tables",
        "SELECT * FROM open_tables ORDER BY tree DESC, number DESC",
        own=True,
    ),
    Table("snapshots", "SELECT * FROM snapshots", "SELECT * FROM snapshots ORDER BY tree DESC, through DESC", own=True),
    Table("controls", "SELECT * FROM controls", "SELECT * FROM controls ORDER BY tree DESC", own=True),
    Table(
        "control_entries",
        "SELECT * FROM control_entries",
        "SELECT * FROM control_entries ORDER BY tree DESC, term DESC, position DESC",
        own=True,
    ),
    Table(
        "masters",
        "SELECT * FROM masters",
        "SELECT * FROM masters ORDER BY app DESC",
        own=True,
        insert="INSERT OR REPLACE INTO masters VALUES (?, ?, ?, ?)",
    ),
    Table("root_groups", "SELECT * FROM root_groups", "SELECT * FROM root_groups ORDER BY tree DESC", own=True),
    Table(
        "group_entries",
        "SELECT * FROM group_entries",
        "SELECT * FROM group_entries ORDER BY tree DESC, position DESC",
        own=True,
    ),
    Table(
        "records",
        "SELECT * FROM records",
        "SELECT * FROM records ORDER BY app DESC, key DESC",
        own=False,
        insert="INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)",
    ),
    Table(
        "held_snapshots",
        "SELECT * FROM held_snapshots",
        "SELECT * FROM held_snapshots ORDER BY tree DESC, agent DESC, through DESC",
        own=False,
        insert="INSERT OR REPLACE INTO held_snapshots VALUES (?, ?, ?, ?, ?, ?, ?)",
    ),
    Table(
        "held_checkpoints",
        "SELECT * FROM held_checkpoints",
        "SELECT * FROM held_checkpoints ORDER BY source DESC, address DESC",
        own=False,
        insert="INSERT OR REPLACE INTO held_checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)",
    ),
    Table(
        "history",
        "SELECT * FROM history",
        "SELECT * FROM history ORDER BY app DESC, kind DESC, interval DESC",
        own=False,
        insert="INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?, ?)",
    ),
)
