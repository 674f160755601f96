"""What open windows of probes cost a program that does the same work again and again.

The program's speed drifts by more than windows cost. So each piece of work, a generation, is compared with those
right before and after it, and what is asked is whether the one with more of a window in it took longer.
"""

import random
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from math import log
from statistics import median

# Beside a window, probes are being attached or taken off: some of them are on, fewer the farther away. Steps of that
# time, each with a loss of its own, and how many of them, on either side; ns.
STEP, STEPS = 100_000_000, 3
# A generation is compared with so many before it and as many after it. With one, noise of a single generation counts
# for more; with many, drift does.
NEIGHBOURS = 2
# What is near to each other shares its noise and is resampled together: so many at a time. Fewer such blocks tell nothing.
BLOCK, FEWEST_BLOCKS = 8, 5
REPEATS = 2000
# What makes a residual an outlier, in standard deviations: Huber's own.
OUTLIER = 1.345


@dataclass
class Figure:
    """A number, and where 95 % of its resampled values lie."""

    value: float
    low: float
    high: float

    def __str__(self):
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


@dataclass
class Cost:
    """What windows cost. Losses are shares of the time: 0.1 means that a tenth of it went to no work."""

    # While a window is open.
    within: Figure
    # On the whole: that, times the share of the time in windows; and this with what is lost right beside them.
    by_windows: Figure
    whole: Figure
    # Half way between two windows, where nothing can be lost. None where that cannot be told from a window.
    null: Figure
    # Shares of the time.
    share_within: float
    share_beside: float
    generations: int
    windows: int


def windows_of(found):
    """[since, until] of the windows that these facts tell of; one that is told of in stretches is one."""
    return _joined((fact["since"], fact["until"]) for fact in found if fact["fact"] == "window")


def _joined(stretches):
    joined = []
    for since, until in sorted(stretches):
        if joined and since <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], until)
        else:
            joined.append([since, until])
    return joined


def cost(generations, windows):
    """The cost of windows, from [begin, end] of pieces of work that are all alike; None where these cannot tell.

    A generation that loses the share k of its time while in a window, and is so for the share f of it, takes
    1 / (1 - k f) times as long. The logarithm of that, less its mean for the neighbours, is set beside the
    logarithm of the measured time, less the same: drift is in both and falls out. No neighbour has to be free of windows.
    """
    if not windows:
        return None
    # Of what was before the first window that is known, or after the last, it is not known whether there were others.
    generations = [(begin, end) for begin, end in generations if windows[0][0] <= begin < end <= windows[-1][1]]
    parts = _parts(generations, windows)
    fit = _fit(generations, parts)
    if fit is None:
        return None
    shares = [_mean_share(generations, part) for part in parts]
    return Cost(
        within=_figure(fit, [1]),
        by_windows=_figure(fit, shares[:1]),
        whole=_figure(fit, shares),
        null=_null(generations, windows, parts),
        share_within=shares[0],
        share_beside=sum(shares[1:]),
        generations=len(generations),
        windows=len(windows),
    )


def _parts(generations, windows):
    """Of each generation, the share that is in windows; then those in each step beside them."""
    reached = [
        _shares(generations, _joined((since - step * STEP, until + step * STEP) for since, until in windows))
        for step in range(STEPS + 1)
    ]
    return [reached[0], *([far - near for near, far in zip(*pair)] for pair in zip(reached, reached[1:]))]


def _null(generations, windows, parts):
    """What windows would lose that were half way between the real ones: nothing, if the estimate is right.

    The real ones stay in the model. Where generations are long, the neighbours of one half way are in real windows,
    beside which it looks fast.
    """
    distances = [later[0] - earlier[0] for earlier, later in zip(windows, windows[1:])]
    if not distances:
        return None
    half = int(median(distances)) // 2
    shifted = _shares(generations, [(since + half, until + half) for since, until in windows])
    fit = _fit(generations, [shifted, *parts])
    return fit and _figure(fit, [1])


def _shares(generations, stretches):
    """Of each generation, the share that is in these stretches, which are sorted and do not overlap."""
    begins = [since for since, _ in stretches]
    before = [0, *accumulate(until - since for since, until in stretches)]

    def covered(moment):
        """How much of the time up to a moment is in stretches."""
        index = bisect_right(begins, moment)
        return before[index] - (max(0, stretches[index - 1][1] - moment) if index else 0)

    return [(covered(end) - covered(begin)) / (end - begin) for begin, end in generations]


def _mean_share(generations, shares):
    lengths = [end - begin for begin, end in generations]
    return sum(share * length for share, length in zip(shares, lengths)) / sum(lengths)


def _less_neighbours(values):
    """Each value that has all its neighbours, less their mean."""
    sums, reach = [0, *accumulate(values)], NEIGHBOURS
    return [
        values[at] - (sums[at + reach + 1] - sums[at - reach] - values[at]) / (2 * reach)
        for at in range(reach, len(values) - reach)
    ]


def _fit(generations, parts):
    """The loss in each part of the time: as estimated, and as resampled generations have it. None where they cannot tell.

    By Huber's estimator, with an intercept. Noise with heavy tails would rule over least squares. A median of slopes
    bears it too, but it is for one unknown, and makes less of the many generations that are no outliers. Outliers are slow
    ones, so that noise may lie to one side: the intercept takes what does not depend on windows.
    """
    times = _less_neighbours([log(end - begin) for begin, end in generations])
    if len(times) < BLOCK * FEWEST_BLOCKS:
        return None
    guess = [0.0] * (1 + len(parts))
    for _ in range(50):
        kept = [max(0.1, 1 - sum(k * f for k, f in zip(guess[1:], shares))) for shares in zip(*parts)]
        rows = list(zip(
            [1.0] * len(times), *(_less_neighbours([f / rest for f, rest in zip(part, kept)]) for part in parts)
        ))
        model = _less_neighbours([-log(rest) for rest in kept])
        residuals = [time - guess[0] - expected for time, expected in zip(times, model)]
        limit = OUTLIER * 1.4826 * median(map(abs, residuals)) or 1e-12
        weights = [min(1, limit / max(abs(residual), 1e-12)) for residual in residuals]
        step = _solved(
            _products(rows, weights), _sums(rows, [weight * residual for weight, residual in zip(weights, residuals)])
        )
        if step is None:
            return None
        guess = [value + change for value, change in zip(guess, step)]
        if max(map(abs, step)) < 1e-7:
            break
    estimates = _resampled(guess, rows, residuals, limit)
    # In many of the draws, there was nothing of a part.
    return (guess[1:], estimates) if len(estimates) > 0.9 * REPEATS else None


def _resampled(guess, rows, residuals, limit):
    """The estimates that resampled blocks would give, by one step of Newton's from the one that all give."""
    blocks = []
    for at in range(0, len(rows), BLOCK):
        some, left = rows[at : at + BLOCK], residuals[at : at + BLOCK]
        pulls = [max(-limit, min(limit, residual)) for residual in left]
        blocks.append((_products(some, [float(abs(residual) <= limit) for residual in left]), _sums(some, pulls)))
    blocks = [([value for line in products for value in line], sums) for products, sums in blocks]
    chance, size, estimates = random.Random(1), len(guess), []
    for _ in range(REPEATS):
        drawn = chance.choices(blocks, k=len(blocks))
        flat = [sum(values) for values in zip(*(products for products, _ in drawn))]
        step = _solved(
            [flat[at : at + size] for at in range(0, size * size, size)],
            [sum(values) for values in zip(*(sums for _, sums in drawn))],
        )
        if step is not None:
            estimates.append([value + change for value, change in zip(guess, step)][1:])
    return estimates


def _figure(fit, factors):
    """The sum of the first losses, each times its factor."""
    losses, estimates = fit
    value, *values = (sum(factor * loss for factor, loss in zip(factors, each)) for each in (losses, *estimates))
    values.sort()
    return Figure(value, values[len(values) // 40], values[-1 - len(values) // 40])


def _products(rows, weights):
    """The matrix of the weighted sums of products of columns."""
    columns = list(zip(*rows))
    return [
        [sum(a * b * weight for a, b, weight in zip(first, second, weights)) for second in columns] for first in columns
    ]


def _sums(rows, values):
    return [sum(a * value for a, value in zip(column, values)) for column in zip(*rows)]


def _solved(matrix, right):
    """The solution of a few linear equations; None where there is not exactly one."""
    lines = [[*line, value] for line, value in zip(matrix, right)]
    size = len(lines)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(lines[row][at]))
        if abs(lines[pivot][at]) < 1e-9:
            return None
        lines[at], lines[pivot] = lines[pivot], lines[at]
        lines[at] = [value / lines[at][at] for value in lines[at]]
        for row in range(size):
            if row != at:
                factor = lines[row][at]
                lines[row] = [value - factor * other for value, other in zip(lines[row], lines[at])]
    return [line[size] for line in lines]
