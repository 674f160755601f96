"""Tests of what windows cost, without a GPU: python3 -m unittest discover -s tests/gpu-check."""

import base64
import json
import random
import sys
import tempfile
import unittest
import zlib
from math import exp, sqrt
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER)]

from checks import vllm_speed
from gpu_check import arrow, windows
from gpu_check.rows import Table
from test_events import STREAM

SECOND = 10**9


def run(seed, seconds, generation, period, slower, beside=0.0, walk=0.02, noise=0.013):
    """Generations and windows of an engine that works so much slower in windows, and in 0.15 s on either side of them.

    Its speed drifts, in some ten seconds by 15 %, and each generation has noise with heavy tails. s.
    """
    chance, length, reach = random.Random(seed), 0.2, 0.15
    opened, changes, at = [], [], 0.5
    while at < seconds:
        opened.append((at, at + length))
        changes += [(at - reach, 1 + beside), (at, 1 + slower), (at + length, 1 + beside), (at + length + reach, 1.0)]
        at += period * chance.uniform(0.8, 1.2)
    changes.append((float("inf"), 1.0))
    generations, now, drift, pace, index = [], 0.0, 0.0, 1.0, 0
    while now < seconds:
        drift = 0.995 * drift + chance.gauss(0, walk)
        # Student's t with three degrees of freedom.
        tailed = noise * chance.gauss(0, 1) / sqrt(chance.gammavariate(1.5, 2 / 3))
        begin, work = now, generation * exp(drift + tailed)
        while now + work * pace > changes[index][0]:
            work -= (changes[index][0] - now) / pace
            now, pace = changes[index]
            index += 1
        now += work * pace
        generations.append([int(begin * SECOND), int(now * SECOND)])
    return generations, [[int(since * SECOND), int(until * SECOND)] for since, until in opened]


def graphs(seed, slower, **more):
    return run(seed, 400, 0.18, 2.6, slower, **more)


def eager(seed, slower, **more):
    return run(seed, 400, 0.9, 2.0, slower, walk=0.035, noise=0.04, **more)


class Costs(unittest.TestCase):
    def has(self, figure, truth):
        self.assertLessEqual(figure.low, truth)
        self.assertGreaterEqual(figure.high, truth)
        self.assertTrue(figure.low <= figure.value <= figure.high)

    def test_the_truth_is_in_the_interval_in_spite_of_drift_and_heavy_tails(self):
        for make, slower, precision in ((graphs, 0.11, 0.002), (eager, 0.10, 0.015)):
            with self.subTest(make.__name__):
                cost = windows.cost(*make(1, slower))
                lost = slower / (1 + slower)
                self.has(cost.within, lost)
                self.has(cost.by_windows, lost * cost.share_within)
                self.has(cost.whole, lost * cost.share_within)
                self.has(cost.null, 0)
                self.assertLess(cost.whole.high - cost.whole.low, 2 * precision)
        # What is measured well is known not to be nothing.
        self.assertGreater(windows.cost(*graphs(1, 0.11)).within.low, 0.05)

    def test_what_attaching_costs_is_part_of_the_whole(self):
        cost = windows.cost(*graphs(2, 0.11, beside=0.055))
        self.has(cost.within, 0.11 / 1.11)
        self.has(cost.whole, 0.11 / 1.11 * cost.share_within + 0.055 / 1.055 * cost.share_beside / 2)
        self.assertGreater(cost.whole.low, cost.by_windows.high)

    def test_windows_that_cost_nothing(self):
        for make in (graphs, eager):
            with self.subTest(make.__name__):
                cost = windows.cost(*make(3, 0.0))
                for figure in (cost.within, cost.by_windows, cost.whole, cost.null):
                    self.has(figure, 0)

    def test_the_shares_are_those_of_the_time_between_the_first_window_and_the_last(self):
        generations = [[at * SECOND // 5, (at + 1) * SECOND // 5] for at in range(1000)]
        opened = [[at * SECOND, at * SECOND + SECOND // 10] for at in range(1, 190, 2)]
        cost = windows.cost(generations, opened)
        self.assertAlmostEqual(cost.share_within, 0.05, 3)
        self.assertAlmostEqual(cost.share_beside, 0.3, 2)
        self.assertEqual((cost.windows, cost.generations), (95, 940))

    def test_what_cannot_be_told_is_none(self):
        generations, opened = graphs(1, 0.11)
        self.assertIsNone(windows.cost(generations, []))
        self.assertIsNone(windows.cost([], opened))
        self.assertIsNone(windows.cost(generations[:2], opened))
        self.assertIsNone(windows.cost(generations, opened[:1]))
        # Open all the time.
        self.assertIsNone(windows.cost(generations, [[0, generations[-1][1]]]))
        # All in one moment, and none after: nothing is known in between.
        self.assertIsNone(windows.cost(generations, [[0, 1], [generations[-1][1], generations[-1][1] + 1]]))


class Facts(unittest.TestCase):
    def test_windows_are_read_from_text(self):
        found = [json.loads(text) for text in (
            '{"fact":"settings","version":"1"}',
            '{"fact":"window","since":50,"until":60,"families":["launch"],"weight":9.5}',
            '{"fact":"window","since":100,"until":200,"families":["launch","copy","sync"],"weight":2.0}',
            # It stays open, and is told of in stretches.
            '{"fact":"window","since":200,"until":300,"families":["launch","copy","sync"],"weight":1.0}',
            '{"fact":"end"}',
        )]
        self.assertEqual(windows.windows_of(found), [[50, 60], [100, 300]])
        self.assertEqual(windows.windows_of([]), [])

    def test_a_segment_is_read_down_to_its_texts_also_where_it_was_cut(self):
        whole = zlib.decompress(base64.b64decode(STREAM))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "segment"
            for data in (whole, whole[:-8]):
                path.write_bytes(data)
                self.assertEqual(set(arrow.texts(path)), {'a "fact", é', "x" * 60})
            path.write_bytes(b"")
            self.assertEqual(list(arrow.texts(path)), [])


class Rows(unittest.TestCase):
    def test_each_figure_has_a_row(self):
        table = Table()
        vllm_speed.add_cost(table, "s", *graphs(1, 0.11), {"window"}, [[0.009, 0.07], [0.011, 0.09]])
        self.assertEqual(len(table.rows), 4)
        self.assertIn("cudasnoop_overhead_ratio 0.0100", table.rows[2].note)
        self.assertIn("memory calls and PyTorch's reports", table.rows[2].note)
        self.assertEqual(table.rows[1].cudasnoop, "0.0781")

    def test_without_windows_there_is_a_row_that_says_so(self):
        table = Table()
        vllm_speed.add_cost(table, "s", [[1, 2]], [], set(), [])
        self.assertEqual([(row.cudasnoop, row.note) for row in table.rows], [
            (None, "1 pieces, 0 windows: too few, or windows were always open"),
        ])

    def test_pieces_are_alike(self):
        sys.path.append(str(FOLDER / "scenarios"))
        import vllm_speed as scenario

        class Engine:
            def step(self):
                return "outputs"

        steps = scenario.noted(Engine)
        engine = Engine()
        self.assertEqual({engine.step() for _ in range(65)}, {"outputs"})
        pieces = scenario.pieces_of(steps)
        self.assertEqual(len(pieces), 7)
        self.assertEqual(pieces[0], [steps[8][0], steps[15][1]])
        self.assertEqual(scenario.pieces_of(steps[:10]), [])

    def test_speed(self):
        self.assertEqual(vllm_speed.speed({"tokens": 10, "generations": [[0, SECOND], [SECOND, 3 * SECOND]]}), 20 / 3)


if __name__ == "__main__":
    unittest.main()
