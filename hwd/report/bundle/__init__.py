"""A run in one file, with its report, from which each figure can be derived again; and the proof that it can."""

from hwd.report.bundle.archive import Archive, open_bundle
from hwd.report.bundle.manifest import Manifest, Program, this_program
from hwd.report.bundle.verification import Verification, recorded_report, verify
from hwd.report.bundle.writer import BundleWriter

__all__ = [
    "Archive",
    "BundleWriter",
    "Manifest",
    "Program",
    "Verification",
    "open_bundle",
    "recorded_report",
    "this_program",
    "verify",
]
