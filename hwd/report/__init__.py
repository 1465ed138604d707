"""Tables, drawings and pages, from records only."""

from hwd.report.cdf import cdf
from hwd.report.html import html, typical
from hwd.report.load import RunReport, load
from hwd.report.stages import StageRow, stage_table
from hwd.report.text import stage_text
from hwd.report.waterfall import waterfall

__all__ = ["RunReport", "StageRow", "cdf", "html", "load", "stage_table", "stage_text", "typical", "waterfall"]
