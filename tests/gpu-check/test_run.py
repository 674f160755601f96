"""Tests of the proof itself, without a GPU: python3 -m unittest discover -s tests/gpu-check."""

import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER / "scenarios")]

import run
import truth
from checks import launches, native
from gpu_check import lambdas, names, process
from gpu_check.bench import Bench, _window
from gpu_check.report import Report, counted
from gpu_check.rows import EQUAL, FAILED, INFORMATION, UNEQUAL, Table


def report(calls=(), kernels=(), copies=(), accounts=(), lost=None, complete=True):
    """A report as `cudasnoop report --json` writes it, down to the keys that are read here."""
    return Report({
        "recording": {"events": 9, "lost": lost or {"ring_full": 0}, "complete": complete},
        "calls": [
            {"api": api, "calls": count, "errors": errors, "bytes": size} for api, count, errors, size in calls
        ],
        "kernels": [{"name": name, "launches": count} for name, count in kernels],
        "copies": [
            {"direction": direction, "copies": count, "failed": failed, "bytes": size}
            for direction, count, failed, size in copies
        ],
        "memory": [],
        "accounts": [{"api": api, "made": made, "balanced": balanced} for api, made, balanced in accounts],
        "gaps": [],
    })


class Reused(unittest.TestCase):
    """Kernels whose handles are used again."""

    PROFILE = {"kernels": [["void regular_fft_r2c<48u, EPT<6u>>(int)", "cuLaunchKernel", 6]]}

    def compare(self, life, kernels):
        table = Table()
        truth = {"profile": self.PROFILE, "transforms": {"48": 3, "64": 3}}
        launches.compare_reused(table, "fft_plans", life, kernels, truth)
        return [row.equal for row in table.rows]

    def test_names_are_told_apart_by_length(self):
        kernels = [("_Z15regular_fft_r2cILj48E3EPTvPf", 3), ("_Z14vector_fft_r2cILj64E3EPTvPf", 3)]
        self.assertEqual(self.compare("long-lived", kernels), [EQUAL, EQUAL, EQUAL, INFORMATION])

    def test_a_name_may_be_missing_where_the_kernel_is_gone(self):
        kernels = [(None, 5), ("_Z15regular_fft_r2cILj48E3EPTvPf", 1)]
        self.assertEqual(self.compare("short-lived", kernels), [EQUAL, EQUAL, INFORMATION, INFORMATION])
        self.assertEqual(self.compare("long-lived", kernels), [EQUAL, EQUAL, UNEQUAL, INFORMATION])

    def test_a_wrong_name_is_unequal(self):
        kernels = [("_Z15regular_fft_r2cILj48E3EPTvPf", 6)]
        self.assertEqual(self.compare("short-lived", kernels), [EQUAL, UNEQUAL, INFORMATION, INFORMATION])
        other = [("_Z15regular_fft_r2cILj31E3EPTvPf", 3), (None, 3)]
        self.assertEqual(self.compare("short-lived", other), [EQUAL, UNEQUAL, INFORMATION, INFORMATION])


class Rows(unittest.TestCase):
    def test_equal_needs_two_equal_numbers(self):
        table = Table()
        self.assertTrue(table.equal("s", "a", 5, 5, cause="hidden"))
        self.assertFalse(table.equal("s", "b", 5, 6, cause="shown"))
        self.assertFalse(table.equal("s", "unknown is not equal to unknown", None, None))
        self.assertEqual([row.equal for row in table.rows], [EQUAL, UNEQUAL, UNEQUAL])
        self.assertEqual([row.note for row in table.rows], ["", "shown", ""])
        self.assertFalse(table.passed())

    def test_a_series_shows_the_first_difference_with_both_numbers(self):
        table = Table()
        table.series("s", "c", [1, 2, 9, 9], [1, 2, 3, 4], cause="why")
        row = table.rows[0]
        self.assertEqual((row.cudasnoop, row.truth, row.equal), (9, 3, UNEQUAL))
        self.assertIn("2 of 4 moments differ, the first is number 2; why", row.note)

    def test_a_series_of_other_length_or_of_nothing_is_unequal(self):
        table = Table()
        table.series("s", "shorter", [1], [1, 2])
        table.series("s", "nothing", [], [])
        table.series("s", "unknown", [None], [None])
        self.assertEqual(table.count(UNEQUAL), 3)

    def test_nothing_compared_is_no_success(self):
        table = Table()
        table.information("s", "a number", 5)
        table.skipped("s", "no card")
        self.assertFalse(table.passed())
        table.equal("s", "c", 1, 1)
        self.assertTrue(table.passed())
        table.failed("s", "", "why")
        self.assertFalse(table.passed())

    def test_markdown_has_both_numbers_and_cannot_be_broken(self):
        table = Table()
        table.equal("s", "launches of f<int>(a | b)\n", 1234567, {"b": 1, "a": [2, 3], None: 4}, cause="x|y")
        line = table.markdown().splitlines()[2]
        self.assertEqual(
            line, "| s | launches of f&lt;int>(a \\| b) | 1,234,567 | a 2 / 3, b 1, None 4 | no | x\\|y |"
        )


class Names(unittest.TestCase):
    def test_demangled_as_the_profiler_does(self):
        self.assertEqual(names.full("_Z4fillPffi"), "fill(float*, float, int)")
        self.assertEqual(names.full("triton_poi_fused_add_0"), "triton_poi_fused_add_0")
        self.assertEqual(names.full("_Znot mangled"), "_Znot mangled")

    def test_a_host_stub_has_its_kernels_name(self):
        # nvcc: static void __device_stub__Z4fillPffi(float *, float, int)
        self.assertEqual(names.full("_ZL25__device_stub__Z4fillPffiPffi"), "fill(float*, float, int)")
        self.assertEqual(names.full("_ZL25__device_stub__plain_namePi"), "plain_name")

    def test_numbers_of_lambdas_and_files_do_not_count(self):
        host = "void k<f(T)::{lambda(int)#3}>(int) [clone .1]"
        device = "void k<f(T)::{lambda(int)#1}>(int)"
        self.assertEqual(names.normal(host), names.normal(device))
        self.assertEqual(names.normal("_GLOBAL__N__0a1b_4_f_cu::g()"), names.normal("(anonymous namespace)::g()"))
        self.assertNotEqual(names.normal("f(int)"), names.normal("f(long)"))

    def test_names_too_long_to_demangle_differ_in_linkage_only(self):
        long = "".join(f"{len(part)}{part}" for part in ["x" * 200] * 6)
        host, device = f"_ZN3one{long}L4fillEv", f"_ZN3one{long}4fillEv"
        self.assertEqual(names.full(host), host)
        self.assertEqual(names.normal(host), names.normal(device))

    # Host stub and device name of kernels in PyTorch 2.11's libtorch_cuda.so, shortened.
    LAMBDAS = [
        (
            "void k<8, __nv_hdl_wrapper_t<false, false, false, __nv_dl_tag<void (*)(at::TensorIterator&, "
            "c10::Scalar const&), &at::(anonymous namespace)::hardtanh, 1u>, double (double, double), double>, "
            "std::array<char*, 3ul> >(int, std::array<char*, 3ul>)",
            "void k<8, at::(anonymous namespace)::hardtanh(at::TensorIterator&, c10::Scalar const&)::{lambda()#1}"
            "::operator()() const::{lambda()#2}::operator()() const::{lambda(double, double)#1}, "
            "std::array<char*, 3ul> >(int, std::array<char*, 3ul>)",
            "void k<8, {lambda (double, double) in at::(anonymous namespace)::hardtanh}, "
            "std::array<char*, 3ul>>(int, std::array<char*, 3ul>)",
        ),
        (
            "void k<128, __nv_hdl_wrapper_t<false, false, false, __nv_dl_tag<void (*)(at::Iterator&, "
            "__nv_hdl_wrapper_t<false, false, false, __nv_dl_tag<void (*)(at::Iterator&), &at::clamp, 3u>, int (int)> "
            "const&), &(void at::gpu<__nv_hdl_wrapper_t<false, false, false, __nv_dl_tag<void (*)(at::Iterator&), "
            "&at::clamp, 3u>, int (int)> >(at::Iterator&)), 1u>, void (int), Calculator<2> > >(int)",
            "void k<128, at::gpu<at::clamp(at::Iterator&)::{lambda()#1}::operator()() const::{lambda(int)#1}>"
            "(at::Iterator&, at::clamp(at::Iterator&)::{lambda()#1}::operator()() const::{lambda(int)#1} const&)"
            "::{lambda(int)#1}>(int)",
            "void k<128, {lambda (int) in at::gpu<{lambda (int) in at::clamp}>}>(int)",
        ),
        (
            "void r<__nv_dl_wrapper_t<__nv_dl_tag<void (at::Sum<int, float>::*)(at::Iterator&), "
            "&at::Sum<int, float>::operator(), 1u> >, 4>()",
            "void r<at::Sum<int, float>::operator()(at::Iterator&)::{lambda(int, int)#1}, 4>()",
            "void r<{lambda ? in at::Sum<int, float>::operator()}, 4>()",
        ),
    ]

    def test_lambdas_of_host_and_device_have_one_form(self):
        for host, device, form in self.LAMBDAS:
            spell = names.with_lambdas_by_function if "?" in form else names.with_lambdas_by_signature
            self.assertEqual(spell(host), form)
            self.assertEqual(spell(device), form)

    def test_names_that_are_not_understood_stay_as_they_are(self):
        for name in ("k<__nv_hdl_wrapper_t<>", "k<__nv_dl_wrapper_t<int>>", "{lambda(", "f(::{lambda()#1}", "a->b()"):
            self.assertEqual(lambdas.plain(name), name)

    def test_each_kernel_is_matched_at_the_strictest_step(self):
        host, device, _ = self.LAMBDAS[0]
        match = names.Match(
            [("_Z1fv", 2), (host, 5), ("g<h()::{lambda()#1}>()", 3), (None, 4), ("extra", 1)],
            [("f()", 2), (device, 5), ("g<h()::{lambda()#7}>()", 3), ("missing", 9), ("f(int)", 1)],
        )
        self.assertEqual(list(match.agreed.values()), [1, 1, 1])
        self.assertEqual((match.count(), match.kernels, match.nameless), (3, 5, 4))
        self.assertEqual(match.differences, {"extra": (1, 0), "f(int)": (0, 1), "missing": (0, 9)})

    def test_names_that_one_step_brings_together_are_compared_by_their_sum(self):
        match = names.Match([("g<h()::{lambda()#1}>()", 5)], [("g<h()::{lambda()#1}>()", 3), ("g<h()::{lambda()#2}>()", 2)])
        self.assertEqual((match.count(), match.differences), (2, {}))


class Profile(unittest.TestCase):
    def test_kernels_are_told_from_those_of_graphs_by_the_launching_call(self):
        def call(category, name, correlation):
            return {"cat": category, "name": name, "args": {"correlation": correlation}}

        events = [
            call("cuda_driver", "cuLaunchKernel", 1),
            call("cuda_runtime", "cudaLaunchKernel", 1),
            call("cuda_driver", "cuLaunchKernelEx", 2),
            call("cuda_runtime", "cudaGraphLaunch", 3),
            call("kernel", "a", 1),
            call("kernel", "b", 2),
            call("kernel", "b", 4),
            call("kernel", "c", 3),
            call("kernel", "c", 3),
            {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "args": {"bytes": 7, "correlation": 5}},
            {"cat": "gpu_memset", "name": "Memset", "args": {"bytes": 7, "correlation": 6}},
            {"ph": "M", "name": "process_name"},
        ]
        self.assertEqual(truth.activities(events), {
            "kernels": [["a", "cudaLaunchKernel", 1], ["b", "cuLaunchKernelEx", 1], ["b", "unknown", 1]],
            "graph_kernels": [["c", "cudaGraphLaunch", 2]],
            "copies": [1, 7],
        })

    def test_launches_of_all_layers_are_compared_in_total_and_by_name(self):
        table = Table()
        bench = type("Bench", (), {"table": table})
        ours = report(
            calls=[("cudaLaunchKernel", 3, None, None), ("cuLaunchKernelEx", 2, None, None), ("cudaMalloc", 9, {}, 9)],
            kernels=[("_Z1fv", 3), ("gemm", 2)],
        )
        profile = {"kernels": [["f()", "cudaLaunchKernel", 3], ["gemm", "cudaLaunchKernelExC", 2]], "copies": [0, 0]}
        launches.compare(bench, "s", ours, profile)
        self.assertTrue(table.passed(), table.markdown())

    def test_each_name_that_differs_has_a_row_with_both_numbers(self):
        table = Table()
        launches.compare_names(table, "s", [("f", 3), (None, 2), ("only ours", 1)], [("f", 3), ("gemm", 2)])
        unequal = {row.claim: (row.cudasnoop, row.truth) for row in table.rows if row.equal == UNEQUAL}
        self.assertEqual(unequal, {
            "kernels on whose name and launches both agree": (1, 2),
            "launches of kernels without a name": (2, 0),
            "launches of gemm": (0, 2),
            "launches of only ours": (1, 0),
        })

    def test_a_kernel_that_the_profiler_did_not_see_is_unequal(self):
        table = Table()
        launches.compare_names(table, "s", [("f", 1), ("g", 1)], [("f", 1)])
        self.assertEqual([row.claim for row in table.rows if row.equal == UNEQUAL], ["launches of g"])


class Reports(unittest.TestCase):
    def test_calls_errors_and_bytes_are_summed_over_functions(self):
        ours = report(calls=[("cudaMalloc", 3, {"2": 1}, 10), ("cuMemAlloc_v2", 2, {}, 5), ("cudaFree", 1, None, None)])
        self.assertEqual(ours.calls("cudaMalloc", "cuMemAlloc_v2"), 5)
        self.assertEqual(ours.errors("cudaMalloc", "cudaFree"), 1)
        self.assertEqual(ours.bytes("cudaMalloc", "cuMemAlloc_v2", "cudaFree"), 15)
        self.assertEqual(ours.by_function("cudaFree", "cudaMalloc"), {"cudaMalloc": 3, "cudaFree": 1})

    def test_a_loss_and_an_unknown_loss_are_faults(self):
        self.assertEqual(report().faults(), [])
        faults = report(
            lost={"ring_full": 2, "pairing_full": None}, complete=False, accounts=[("cudaFree", 1, False)]
        ).faults()
        self.assertEqual(len(faults), 4, faults)

    def test_failed_copies_are_in_no_count(self):
        self.assertEqual(report(copies=[("default", 5, 1, 40)]).copies(), {"default": [4, 40]})

    def test_windows_may_be_open(self):
        self.assertEqual(_window([None, 5]), ["--to", "@5"])
        self.assertEqual(_window([3, 5]), ["--from", "@3", "--to", "@5"])
        self.assertEqual(_window(None), [])

    def test_counts_leave_out_what_was_not_called(self):
        self.assertEqual(counted({"calls": [{"api": "a", "calls": 0}, {"api": "b", "calls": 2}]}), {"b": 2})


class Programs(unittest.TestCase):
    TRUTH = {
        "mallocs": 4, "malloc_bytes": 400, "failed_mallocs": 2, "frees": 4, "kernels": {"f()": 3},
        "copies": {"host_to_device": [2, 20], "device_to_host": [1, 10]},
        "device_waits": 1, "stream_waits": 2, "event_waits": 3, "graph_launches": 5,
    }

    def calls(self, *names):
        counts = [6, 4, 3, 1, 2, 3, 5]
        errors = [{"2": 2}, {}, None, {}, {}, {}, {}]
        sizes = [400] + [None] * 6
        return list(zip(names, counts, errors, sizes))

    def test_a_program_is_compared_whichever_layer_saw_it(self):
        runtime = (
            "cudaMalloc", "cudaFree", "cudaLaunchKernel", "cudaDeviceSynchronize", "cudaStreamSynchronize",
            "cudaEventSynchronize", "cudaGraphLaunch",
        )
        driver = (
            "cuMemAlloc_v2", "cuMemFree_v2", "cuLaunchKernel", "cuCtxSynchronize", "cuStreamSynchronize",
            "cuEventSynchronize", "cuGraphLaunch",
        )
        copies = [("host_to_device", 2, 0, 20), ("device_to_host", 1, 0, 10)]
        for layer in (runtime, driver):
            table = Table()
            native.compare(table, "s", report(self.calls(*layer), [("_Z1fv", 3)], copies), self.TRUTH)
            self.assertTrue(table.passed(), table.markdown())

    def test_a_call_counted_in_both_layers_is_seen(self):
        table = Table()
        both = self.calls("cudaMalloc", "cudaFree") + self.calls("cuMemAlloc_v2", "cuMemFree_v2")
        native.compare(table, "s", report(both), self.TRUTH)
        row = next(row for row in table.rows if row.claim == "frees")
        self.assertEqual((row.cudasnoop, row.truth, row.equal), (8, 4, UNEQUAL))


class Running(unittest.TestCase):
    def test_a_scenario_that_fails_leaves_a_row_and_the_rest_runs(self):
        def broken(bench, name):
            bench.table.equal(name, "before", 1, 1)
            raise ValueError("it broke")

        def fails(bench, name):
            process.run(["sh", "-c", "echo why >&2; exit 3"], 5).check()

        def works(bench, name):
            bench.table.equal(name, "after", 1, 1)

        scenarios = {"broken": broken, "fails": fails, "works": works}
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench("/bin/true", folder)
            original, run.SCENARIOS = run.SCENARIOS, scenarios
            try:
                run.run(bench, scenarios)
            finally:
                run.SCENARIOS = original
            kept = [path.name for path in bench.artefacts.iterdir()]
        self.assertEqual([row.equal for row in bench.table.rows], [EQUAL, FAILED, FAILED, EQUAL])
        self.assertIn("ValueError: it broke", bench.table.rows[1].note)
        self.assertIn("ended with 3: why", bench.table.rows[2].note)
        self.assertEqual(kept, ["broken-error.txt"])

    def test_no_program_outlives_its_time(self):
        with self.assertRaises(process.CommandFailed) as caught:
            process.run(["sh", "-c", "echo begun >&2; exec sleep 60"], 0.3)
        self.assertIn("begun", str(caught.exception))

    def test_a_program_that_speaks_by_lines_is_heard_and_a_dead_one_is_an_error(self):
        with process.Dialogue(["sh", "-c", "read word; echo heard $word; read word; echo why >&2; exit 4"]) as program:
            program.say("go")
            self.assertEqual(program.hear(5), "heard go")
            program.say("quit")
            with self.assertRaises(process.CommandFailed) as caught:
                program.hear(5)
        self.assertIn("why", str(caught.exception))

    def test_without_time_a_scenario_is_a_failed_row(self):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench("/bin/true", folder, seconds=0)
            run.run(bench, ["copies"])
        self.assertEqual([row.equal for row in bench.table.rows], [FAILED])
        self.assertIn("no time", bench.table.rows[0].note)

    def test_the_document_names_version_machine_and_result(self):
        table = Table()
        table.equal("s", "c", 1, 2)
        text = run.document({"card": "none"}, "cudasnoop 0.1.0", table)
        for part in ("- cudasnoop: cudasnoop 0.1.0", "- card: none", "Result: 1 unequal.", "| s | c | 1 | 2 | no |"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
