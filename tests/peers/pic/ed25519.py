"""Just enough of Ed25519 (RFC 8032) to make and to recognise public keys that no signer has."""

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)
IDENTITY = (0, 1)


def add(a, b):
    (x1, y1), (x2, y2) = a, b
    k = D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + k, P - 2, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, P - 2, P) % P


def multiply(n, point):
    result = IDENTITY
    while n:
        if n & 1:
            result = add(result, point)
        point, n = add(point, point), n >> 1
    return result


def encode(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def decode(key):
    """The point of an encoding, or None. Accepts encodings that are not canonical."""
    n = int.from_bytes(key, "little")
    y, sign = (n & (1 << 255) - 1) % P, n >> 255
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P:
        return None
    return (x if x & 1 == sign else (P - x) % P), y


def is_sound(key):
    """Whether 32 bytes are the canonical encoding of a point of prime order."""
    point = decode(key)
    if point is None or encode(point) != key:
        return False
    return point != IDENTITY and multiply(L, point) == IDENTITY


def torsion():
    """The eight points of small order."""
    y = 2
    while True:
        point = decode(y.to_bytes(32, "little"))
        if point:
            generator = multiply(L, point)
            if multiply(4, generator) != IDENTITY:
                return [multiply(n, generator) for n in range(8)]
        y += 1


def unsound_keys(sound):
    """Pairs of a name and 32 bytes: keys that are weak, of mixed order, not canonical, or no point at all."""
    small = torsion()
    keys = [(f"small-{n}", encode(point)) for n, point in enumerate(small)]
    keys.append(("mixed", encode(add(decode(sound), small[1]))))
    keys.append(("mixed-order-2", encode(add(decode(sound), small[4]))))
    for y in (0, 1, 3, 4, 5):
        big = (P + y).to_bytes(32, "little")
        if decode(big) is not None:
            keys.append((f"not-canonical-{y}", big))
    keys.append(("identity-signed", (1 | 1 << 255).to_bytes(32, "little")))
    keys.append(("all-ones", b"\xff" * 32))
    no_point = next(y for y in range(2, 50) if decode(y.to_bytes(32, "little")) is None)
    keys.append(("no-point", no_point.to_bytes(32, "little")))
    return keys
