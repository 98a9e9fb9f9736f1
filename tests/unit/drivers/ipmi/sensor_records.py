"""Sensor data records, as a BMC's repository has them."""


def full_record(
    ident, name, number=1, *, unit=1, kind=1, m=1, b=0, exponents=0, form=0, owner=0x20
):
    """
    Return a full sensor record (type 1).

    unit: of table 43-15 (1: °C, 4: V, 6: W, 18: RPM). m, b, exponents: the formula. form: 0 unsigned,
    1 ones' complement, 2 two's complement.
    """
    body = bytes((owner, 0, number, 3, 1, 0x7F, 0x68, kind, 0x01)) + bytes(6)
    body += bytes((form << 6, unit, 0, 0, m & 0xFF, (m >> 8 & 3) << 6, b & 0xFF, 0, 0, exponents))
    body += bytes(17) + bytes((0xC0 | len(name),)) + name.encode()
    return ident.to_bytes(2, "little") + bytes((0x51, 1, len(body))) + body
