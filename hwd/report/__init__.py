"""Tables, figures, pages and files for other programs, made from the records only.

What draws is imported by itself, `hwd.report.figures.figures` and `hwd.report.page.html`: Altair takes a third of a
second.
"""

from hwd.report.comparison import Comparison, compare
from hwd.report.run_report import RunReport
from hwd.report.stages import StageRow, stage_table
from hwd.report.text import stage_text

__all__ = [
    "Comparison",
    "RunReport",
    "StageRow",
    "compare",
    "stage_table",
    "stage_text",
]
