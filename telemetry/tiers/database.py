"""The tiers of the database: partitions of old days go, what their days came to stays in a table of its own."""

from __future__ import annotations

from datetime import date
from typing import Final

from telemetry.read.server import connected
from telemetry.tiers.ages import Ages

_PARTITIONS: Final = """
select c.relname, to_char(to_date(substr(c.relname, 8), 'YYYYMMDD'), 'YYYY-MM-DD') as day
from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
where p.relname = 'events' and c.relname ~ '^events_[0-9]{8}$' order by 1
"""


def thin(dsn: str, ages: Ages, today: date, *, dry_run: bool = False) -> dict[str, int]:
    """Each day in one transaction: its figures kept, its partition dropped."""
    warm, gone = (ages.first(tier, today) for tier in ("warm", "gone"))
    with connected(dsn, "what is due there waits") as con:
        if con.execute("select to_regclass('agent_stats_kept')").fetchone() == (None,):
            return {"days_to_cold": 0, "gone": 0}  # nothing was ever shipped there
        old = [(part, day) for part, day in con.execute(_PARTITIONS).fetchall() if day < warm]
        past = con.execute("select count(*) from agent_stats_kept where day < %s", [gone]).fetchone() or (0,)
        if not dry_run:
            for part, day in old:
                with con.transaction():
                    con.execute(
                        "insert into agent_stats_kept select * from agent_stats_daily where day = %s", [day]
                    )
                    con.execute(f"drop table {part}")
            con.execute("delete from agent_stats_kept where day < %s", [gone])
            con.execute("delete from shipped where substr(file, 4, 10) < %s", [gone])
    return {"days_to_cold": len(old), "gone": int(past[0])}
