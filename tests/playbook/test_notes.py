"""Notes in the steps of a run: with their figures, or as they were written where there are none."""

from hwd.model.documents.runs import RunNote, RunStep

from ..sim.lab import STRAIGHT, Lab


async def test_step_of_a_note_reads_as_the_note(lab: Lab) -> None:
    await lab.do(f"apply: {{pairs: '{STRAIGHT}'}}", "note: '{{ 6 * 7 }} pairs, p95 {{ run.turnaround.p95_s }}'")
    noted = [(step.what, step.state) for step in lab.emitted(RunStep) if step.step == 2]
    assert noted == [(f"note {text}", state) for text in ("42 pairs, p95 unknown",) for state in ("started", "done")]
    assert [note.text for note in lab.emitted(RunNote)] == ["42 pairs, p95 unknown"]


async def test_note_that_cannot_be_calculated_fails_as_a_step_that_reads_as_it_was_written(lab: Lab) -> None:
    run = await lab.do("note: '{{ run.seconds / 0 }} s'")
    assert run.outcome == "failed"
    noted = [(step.what, step.state) for step in lab.emitted(RunStep)]
    assert noted == [("note {{ run.seconds / 0 }} s", "started"), ("note {{ run.seconds / 0 }} s", "failed")]
