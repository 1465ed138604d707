"""Tables, drawings, pages and files for other programs, made from the records only."""

from hwd.report.comparison import Comparison, compare
from hwd.report.figures.cdf import cdf
from hwd.report.figures.waterfall import typical, waterfall
from hwd.report.page.html import html
from hwd.report.run_report import RunReport, load
from hwd.report.stages import StageRow, stage_table
from hwd.report.text import stage_text

__all__ = [
    "Comparison",
    "RunReport",
    "StageRow",
    "cdf",
    "compare",
    "html",
    "load",
    "stage_table",
    "stage_text",
    "typical",
    "waterfall",
]
