"""The table: each row sets what cudasnoop says beside what another source says."""

from dataclasses import asdict, dataclass

EQUAL = "yes"
UNEQUAL = "no"
# A number that is worth knowing and has no second source.
INFORMATION = "-"
FAILED = "failed"
SKIPPED = "skipped"
# The claim concerns something that cudasnoop does not trace yet.


@dataclass
class Row:
    scenario: str
    claim: str
    cudasnoop: object
    truth: object
    equal: str
    # For an unequal row its cause, as far as the check can tell; else a remark.
    note: str = ""


class Table:
    """The rows, in the order in which they were added."""

    def __init__(self):
        self.rows = []

    def equal(self, scenario, claim, cudasnoop, truth, cause="", note=""):
        """A row with two numbers. `cause` is shown only where they differ."""
        same = cudasnoop is not None and cudasnoop == truth
        self._add(scenario, claim, cudasnoop, truth, EQUAL if same else UNEQUAL, note if same else cause or note)
        return same

    def series(self, scenario, claim, cudasnoop, truth, cause=""):
        """One row for many moments: equal when each is. Shows the first that is not."""
        different = [i for i, (ours, theirs) in enumerate(zip(cudasnoop, truth)) if ours is None or ours != theirs]
        if len(cudasnoop) != len(truth) or not truth:
            self._add(scenario, claim, f"{len(cudasnoop)} moments", f"{len(truth)} moments", UNEQUAL, cause)
        elif different:
            first = different[0]
            where = f"{len(different)} of {len(truth)} moments differ, the first is number {first}"
            note = f"{where}; {cause}" if cause else where
            self._add(scenario, claim, cudasnoop[first], truth[first], UNEQUAL, note)
        else:
            note = f"last: {shown(truth[-1])}" if isinstance(truth[-1], int) else ""
            self._add(scenario, claim, f"{len(truth)} moments", f"{len(truth)} moments", EQUAL, note)
        return not different

    def information(self, scenario, claim, cudasnoop, truth="", note=""):
        self._add(scenario, claim, cudasnoop, truth, INFORMATION, note)

    def failed(self, scenario, claim, why):
        self._add(scenario, claim, "", "", FAILED, why)

    def skipped(self, scenario, why):
        self._add(scenario, "", "", "", SKIPPED, why)

    def _add(self, scenario, claim, cudasnoop, truth, equal, note):
        self.rows.append(Row(scenario, claim, cudasnoop, truth, equal, note))

    def count(self, equal):
        return sum(row.equal == equal for row in self.rows)

    def passed(self):
        """Whether something was compared and nothing was unequal or failed."""
        return self.count(EQUAL) > 0 and self.count(UNEQUAL) == 0 and self.count(FAILED) == 0

    def summary(self):
        names = (EQUAL, "equal"), (UNEQUAL, "unequal"), (FAILED, "failed"), (SKIPPED, "skipped")
        counts = [f"{self.count(key)} {name}" for key, name in names if self.count(key)]
        return ", ".join(counts) or "no rows"

    def markdown(self):
        lines = ["| scenario | claim | cudasnoop | truth | equal | note |", "|---|---|---:|---:|---|---|"]
        for row in self.rows:
            fields = row.scenario, row.claim, shown(row.cudasnoop), shown(row.truth), row.equal, row.note
            lines.append("| " + " | ".join(cell(field) for field in fields) + " |")
        return "\n".join(lines) + "\n"

    def json(self):
        return [asdict(row) for row in self.rows]


def shown(value):
    """A value as people read it: thousands apart, unknown named."""
    if value is None:
        return "unknown"
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, dict):
            return ", ".join(f"{key} {shown(item)}" for key, item in sorted(value.items(), key=str)) or "none"
        if isinstance(value, (list, tuple)):
            return " / ".join(shown(item) for item in value) or "none"
        return str(value)
    return f"{value:,}"


def cell(text):
    """Text that cannot break out of a Markdown table's cell."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
