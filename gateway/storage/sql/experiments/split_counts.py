"""Count the units of each variant, each unit once: what the sample ratio test looks at.

A unit counts where it first appeared. One that came in the epochs before the comparison, when one
variant had everyone, counts where it first appeared after them: only there was it drawn.
"""

from collections.abc import Mapping

from strowger_gateway.gateway.statistics.outcomes import Place
from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN

_FIRST = f"""SELECT f.epoch, f.variant, COUNT(*) FROM experiment_first f
    WHERE f.experiment = ? AND {IN.format("f")} GROUP BY f.epoch, f.variant"""
# Every request is an observation of `error`.
_DRAWN = f"""SELECT COALESCE(u.epoch, f.epoch) AS epoch, COALESCE(u.variant, f.variant) AS variant,
    COUNT(*) FROM experiment_first f LEFT JOIN experiment_units u ON f.epoch < {{since}}
    AND u.experiment = f.experiment AND u.metric = 'error' AND u.unit = f.unit
    AND (u.epoch, u.variant) = (SELECT v.epoch, v.variant FROM experiment_units v
        WHERE v.experiment = f.experiment AND v.metric = 'error' AND v.unit = f.unit
        AND v.epoch >= {{since}} ORDER BY v.epoch, v.variant LIMIT 1)
    WHERE f.experiment = ? AND {IN.format("f")}
    GROUP BY COALESCE(u.epoch, f.epoch), COALESCE(u.variant, f.variant)"""


def units_by_place(session: Session, experiment: str, since: int) -> Mapping[Place, int]:
    """Return the number of units by epoch and variant.

    since: the first epoch that is compared; 0 if there is none yet.
    """
    sql = _DRAWN.format(since=since) if since > 1 else _FIRST
    rows = session.rows(tuple[int, str, int], sql, experiment)
    return {(epoch, variant): count for epoch, variant, count in sorted(rows)}
