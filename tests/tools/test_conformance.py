"""What `make conformance` reads: the groups of the suite's source, the list of exceptions, and the results of an earlier run."""
import pytest

from tests.conformance import run

SOURCE = """
func TestFullFlow(ts *TestState) {
	TestBuckets(ts)
	if !ts.conf.azureTests {
		ts.Run(Put_one)
	}
	TestBuckets(ts)
}

func TestBuckets(ts *TestState) {
	ts.Run(Create_one)
	ts.Sync(List_all)
}
"""


def test_groups():
    functions = run.functions_of(SOURCE)
    assert run.cases_of("full-flow", functions) == ["Create_one", "List_all", "Put_one"]


def test_the_exceptions():
    exceptions = run.read_exceptions(run.EXCEPTIONS.read_text())
    assert all(section and len(reason) > 20 for section, reason in exceptions.values())


def test_exceptions_are_read():
    text = "# c\n[ours]\nOne_case\nTwo_case\n    a reason\n    of two lines\n"
    with pytest.raises(ValueError, match="One_case"):
        run.read_exceptions(text + "\nOne_case\n    again\n")
    assert run.read_exceptions(text) == {"One_case": ("ours", "a reason of two lines"), "Two_case": ("ours", "a reason of two lines")}
    for wrong in ("    a reason", "One_case\n    outside a section", "[s]\nOne_case\n", "[s]\nno name\n    r"):
        with pytest.raises(ValueError):
            run.read_exceptions(wrong)


def test_results_of_another_daemon_do_not_count(tmp_path):
    path = tmp_path / "results.jsonl"
    result = {"case": "One_case", "verdict": "passed", "tries": 1, "seconds": 0.1, "output": ""}
    run.Results(path, {"daemon": "a"}, False).add(result)
    assert run.Results(path, {"daemon": "a"}, False).known == {"One_case": result}
    assert run.Results(path, {"daemon": "b"}, False).known == {}
    assert run.Results(path, {"daemon": "a"}, False).known == {}


@pytest.mark.parametrize("verdict, listed, status", [("passed", False, 0), ("failed", False, 1), ("failed", True, 0), ("left out", False, 0)])
def test_only_an_unlisted_failure_counts(capsys, verdict, listed, status):
    known = {"One_case": {"case": "One_case", "verdict": verdict, "tries": 1, "output": "FAIL One_case: why"}}
    exceptions = {"One_case": ("ours", "a reason")} if listed else {}
    assert run.report({"iam": ["One_case"]}, known, exceptions, True) == status
    assert "One_case" in capsys.readouterr().out or verdict == "passed"
