"""The first tables: progress, snapshots, decisions, commands, placements, shares, claims."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

#: By table: the columns of the key, the other columns (a trailing ``#`` marks whole numbers, ``*`` bytes), the indices.
TABLES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "progress": ("cluster", "incarnation position# chain state records_set_aside#", ()),
    "snapshots": ("cluster position#", "incarnation place# chain state format content*", ()),
    "decisions": (
        "cluster position#",
        "record_id term# batch# base# chain state engine time_ms# verdict binds# evictions#",
        (),
    ),
    "commands": (
        "cluster id",
        "position# verb namespace name uid node allocation pod_group reason result result_position# message",
        ("cluster namespace name", "cluster result"),
    ),
    "placements": (
        "cluster uid",
        "namespace name node status scheduler pod_group queue allocation decision",
        ("cluster node", "cluster namespace name"),
    ),
    "shares": ("cluster node gpu uid container# place#", "pod slice memory# cores#", ("cluster uid",)),
    "claims": ("cluster rule node gpu uid", "pod", ("cluster node gpu",)),
}


def _column(text: str) -> sa.Column[object]:
    name = text.rstrip("#*")
    kind = {"#": sa.BigInteger(), "*": sa.LargeBinary()}.get(text[-1], sa.Text())
    return sa.Column(name, kind, nullable=False, autoincrement=False)


def upgrade() -> None:
    for table, (key, rest, indices) in TABLES.items():
        names = [name.rstrip("#*") for name in key.split()]
        columns = [_column(text) for text in f"{key} {rest}".split()]
        op.create_table(table, *columns, sa.PrimaryKeyConstraint(*names, name=f"pk_{table}"))
        for index in indices:
            op.create_index(f"ix_{table}_{index.replace(' ', '_')}", table, index.split())


def downgrade() -> None:
    for table, (_, _, indices) in reversed(TABLES.items()):
        for index in indices:
            op.drop_index(f"ix_{table}_{index.replace(' ', '_')}", table)
        op.drop_table(table)
