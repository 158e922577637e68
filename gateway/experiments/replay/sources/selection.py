"""Which prompts of a source are replayed, and in which order: both are drawn by hashes alone.

Units come in the order of their hashes, and a unit's prompts in that of theirs, so neither the
order of a file nor the time of a request decides.
"""

from collections import Counter, defaultdict

from strowger_gateway.gateway.experiments.replay.prompts import ReplayedPrompt, Unusable, digest

_SLACK = 2
"""Prompts in memory, as a multiple of the sample."""

Rank = tuple[str, str]


class Selection:
    """Takes prompts one by one, and keeps the first ones in the order. left_out: by reason."""

    def __init__(self, run: str, sample: int, per_unit: int) -> None:
        self.left_out: Counter[str] = Counter()
        self._run = run
        self._sample = sample
        self._per_unit = per_unit
        self._units: defaultdict[str, dict[str, ReplayedPrompt]] = defaultdict(dict)
        self._kept = 0

    def add(self, prompt: ReplayedPrompt) -> None:
        of_unit = self._units[prompt.unit]
        key = digest(self._run, prompt.key)
        if key in of_unit:
            self.left_out["the same prompt of the same unit again"] += 1
            return
        of_unit[key] = prompt
        self._kept += 1
        if len(of_unit) > self._per_unit:
            del of_unit[max(of_unit)]
            self._kept -= 1
            self.left_out["more than --per-unit of one unit"] += 1
        if self._kept > _SLACK * self._sample + self._per_unit:
            self._prune()

    def leave_out(self, fault: Unusable) -> None:
        self.left_out[fault.reason] += 1

    def chosen(self) -> list[ReplayedPrompt]:
        """Return the sample in its order."""
        self._prune()
        return [self._units[unit][key] for unit, key in self._ranked()]

    def _ranked(self) -> list[Rank]:
        units = sorted(self._units, key=lambda unit: digest(self._run, unit))
        return [(unit, key) for unit in units for key in sorted(self._units[unit])]

    def _prune(self) -> None:
        for unit, key in self._ranked()[self._sample :]:
            del self._units[unit][key]
            if not self._units[unit]:
                del self._units[unit]
            self._kept -= 1
            self.left_out["beyond --sample"] += 1
