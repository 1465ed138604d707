"""Observation: one source's samples of one port in a reconfiguration; separates `unknown` from `never left`."""

import msgspec

from .bounds import At, Number, Span, Text


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The observation of a state (light, firmware, carrier, rdma, ready) from `from_ns` to `upto_ns`.

    `seen` false: the state could not be observed, `why_not` says why, and the instant is unknown. `lost` 0, `at_begin`
    true and `longest_gap_ns` within what the source latches: the state was never left. `latched`: losses between two
    samples are counted too (pushed by the kernel, counted by it, or held by the module until read); where it is false,
    one that was shorter than `longest_gap_ns` may have been missed. `looks`: samples, or notices.
    """

    seen: bool
    why_not: Text = ""
    at_begin: bool | None = None
    now: bool | None = None
    lost: Number = 0
    latched: bool = False
    looks: Number = 0
    failed: Number = 0
    longest_gap_ns: Span = 0
    from_ns: At = 0
    upto_ns: At = 0
