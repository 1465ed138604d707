"""Module memories, written byte by byte from the tables of the standards to check the parsers, without their constants.

They name no constant of the parsers.
"""

import struct


def summed(memory: bytearray, start: int, position: int) -> None:
    memory[position] = sum(memory[start:position]) % 256


def put(memory: bytearray, at: int, raw: bytes) -> None:
    memory[at : at + len(raw)] = raw


def sfp_a0h(*, diagnostics: int = 0x68, options: int = 0xF0, cable: int = 0) -> bytearray:
    """A0h of an SFP28 LR, 256 bytes. `diagnostics` 0x68: internally calibrated, average power; 0x58: externally.

    `options` 0x10: soft RX_LOS.
    """
    memory = bytearray(256)
    put(memory, 0, bytes([0x03, 0x04, 0x07]))  # SFP, by two wires, LC
    memory[8] = cable
    memory[12] = 0xFF  # 25.78 GBd
    put(memory, 20, b"ACME OPTICS     ")
    put(memory, 37, bytes([0x00, 0x17, 0x6A]))
    put(memory, 40, b"SFP28-LR-10     ")
    put(memory, 56, b"B2  ")
    put(memory, 60, (1310).to_bytes(2))
    summed(memory, 0, 63)
    put(memory, 64, bytes([0x08, 0x1A]))
    put(memory, 68, b"AC2409X0117     ")
    put(memory, 84, b"240901  ")
    put(memory, 92, bytes([diagnostics, options, 0x08]))
    summed(memory, 64, 95)
    return memory


def sfp_a2h(
    *,
    temperature: int = 0x2280,
    bias: int = 20_000,
    tx: int = 10_000,
    rx: int = 5_000,
    status: int = 0x00,
    rx_constants: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0, 0.0),
    lines: tuple[int, ...] = (256, 0, 256, 0, 256, 0, 256, 0),
) -> bytearray:
    """A2h, 256 bytes: 34.5 degrees, 40 mA, 0 dBm out, -3 dBm in.

    `lines`: slope and offset of bias, Tx power, temperature, voltage.
    """
    memory = bytearray(256)
    put(memory, 56, struct.pack(">5f", *rx_constants))
    put(memory, 76, struct.pack(">HhHhHhHh", *lines))
    summed(memory, 0, 95)
    put(memory, 96, struct.pack(">HHHHH", temperature, 33_000, bias, tx, rx))
    memory[110] = status
    return memory


def sfp(a0h: bytearray, a2h: bytearray) -> bytes:
    """As the parser takes them."""
    return bytes(a0h[:128] + a2h[:128])


Pages = dict[int, bytearray]


def cmis_pages(
    *,
    identifier: int = 0x18,
    flat: bool = False,
    technology: int = 0x06,
    rx_flags: int = 0x06,
    lane_monitors: int = 0x07,
    los: int = 0b0000_0100,
    rx: tuple[int, ...] = (5_000, 6_310, 0, 1, 5_000, 5_000, 5_000, 5_000),
    pages: int = 0x00,
    thresholds: bool = True,
) -> Pages:
    """A QSFP-DD 400G FR4: page -1 is the lower memory; upper pages hold 128 bytes each, byte 128 first.

    `lane_monitors` 0x07: bias times 1, Tx, Rx;
    `pages` 0x01: two banks.
    """
    lower, page_00h, page_01h, page_11h = (bytearray(128) for _ in range(4))
    put(lower, 0, bytes([identifier, 0x50, 0x80 if flat else 0x00, 0b0110]))
    put(lower, 14, struct.pack(">h", -3 * 256))
    page_00h[0] = identifier
    put(page_00h, 129 - 128, b"ACME OPTICS     ")
    put(page_00h, 145 - 128, bytes([0x00, 0x17, 0x6A]))
    put(page_00h, 148 - 128, b"QDD-400G-FR4    ")
    put(page_00h, 164 - 128, b"1C")
    put(page_00h, 166 - 128, b"AC2410Q0042     ")
    put(page_00h, 182 - 128, b"241001  ")
    page_00h[212 - 128] = technology
    summed(page_00h, 0, 222 - 128)
    page_01h[142 - 128] = pages
    put(page_01h, 157 - 128, bytes([0x0F, rx_flags, 0x03, lane_monitors]))
    summed(page_01h, 130 - 128, 255 - 128)
    page_11h[147 - 128] = los
    put(page_11h, 154 - 128, struct.pack(">8H", *range(10_000, 18_000, 1000)))
    put(page_11h, 170 - 128, struct.pack(">8H", *[30_000] * 8))
    put(page_11h, 186 - 128, struct.pack(">8H", *rx))
    return {-1: lower, 0x00: page_00h, 0x01: page_01h, 0x02: cmis_thresholds(thresholds), 0x11: page_11h}


def qsfp_lower(*, status: int = 0x02) -> bytearray:
    """Lower page of a QSFP28 LR4: 34.5 degrees, -3 dBm in, 40 mA, 0 dBm out. `status` 0x04: it has page 00h only."""
    lower = bytearray(128)
    put(lower, 0, bytes([0x11, 0x08, status]))
    put(lower, 22, struct.pack(">h", 0x2280))
    put(lower, 26, struct.pack(">H", 33_000))
    for at, steps in ((34, 5_000), (42, 20_000), (50, 10_000)):
        put(lower, at, struct.pack(">4H", *[steps] * 4))
    return lower


def qsfp_page_00h(*, technology: int = 0x40) -> bytearray:
    """Upper page 00h of the same."""
    page = bytearray(128)
    put(page, 0, bytes([0x11, 0xCC, 0x07]))
    page[147 - 128] = technology
    put(page, 148 - 128, b"ACME OPTICS     ")
    put(page, 165 - 128, bytes([0x00, 0x17, 0x6A]))
    put(page, 168 - 128, b"QSFP28-LR4-10   ")
    put(page, 184 - 128, b"1B")
    summed(page, 0, 191 - 128)
    put(page, 196 - 128, b"AC2411L0007     ")
    put(page, 212 - 128, b"241101  ")
    summed(page, 192 - 128, 223 - 128)
    return page


def qsfp_page_03h() -> bytearray:
    """Upper page 03h: high alarm, low alarm, high warning, low warning of each quantity.

    75 to -5 degrees, 5 to -10 dBm received, 100 to 20 mA, 3.5 to -7 dBm sent.
    """
    page = bytearray(128)
    put(page, 128 - 128, struct.pack(">4h", 75 * 256, -5 * 256, 70 * 256, 0))
    put(page, 144 - 128, struct.pack(">4H", 36_300, 29_700, 34_650, 31_350))
    put(page, 176 - 128, struct.pack(">4H", 31_623, 1_000, 25_119, 1_259))
    put(page, 184 - 128, struct.pack(">4H", 50_000, 10_000, 45_000, 12_500))
    put(page, 192 - 128, struct.pack(">4H", 22_387, 1_995, 17_783, 2_512))
    put(
        page, 224 - 128, bytes([0x22, 0x44, 0x0F, 0xFF])
    )  # equalizer limits and what controls there are: none of our business
    return page


def qsfp(lower: bytearray, page_00h: bytearray, page_03h: bytearray) -> bytes:
    """As the parser takes them: of page 03h bytes 128 to 199."""
    return bytes(lower + page_00h + page_03h[: 200 - 128])


def cmis_thresholds(there: bool) -> bytearray:
    """Page 02h: high alarm, low alarm, high warning, low warning of each quantity.

    75 to -5 degrees, 3.5 to -7 dBm sent, 100 to 20 mA, 5 to -10 dBm received.
    """
    page = bytearray(128)
    if there:
        put(page, 128 - 128, struct.pack(">4h", 75 * 256, -5 * 256, 70 * 256, 0))
        put(page, 136 - 128, struct.pack(">4H", 36_300, 29_700, 34_650, 31_350))
        put(page, 176 - 128, struct.pack(">4H", 22_387, 1_995, 17_783, 2_512))
        put(page, 184 - 128, struct.pack(">4H", 50_000, 10_000, 45_000, 12_500))
        put(page, 192 - 128, struct.pack(">4H", 31_623, 1_000, 25_119, 1_259))
    summed(page, 0, 127)
    return page


def cmis(pages: Pages, *, more: tuple[bytearray, ...] = ()) -> bytes:
    """Page 11h, and that page of `more` banks, as the parser takes them: from the loss flags to the last power."""
    banks = b"".join(bytes(page[147 - 128 : 202 - 128]) for page in (pages[0x11], *more))
    return bytes(pages[-1] + pages[0x00] + pages[0x01] + pages[0x02]) + banks
