"""Numbers on the command line that are finite: click's ranges let `nan` through."""

from math import isfinite

import click


class FiniteRange(click.FloatRange):
    """A range without `nan`, `inf` and `-inf`."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if not isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found
