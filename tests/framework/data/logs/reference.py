"""A reader of click logs in plain Python, written from docs/howto/ctr_data.md: csv, xxhash, one row at a time."""

import csv
import io
import math

import numpy as np
import xxhash

MASK = (1 << 52) - 1

CRITEO = {
    "delimiter": "\t",
    "columns": ["label", *(f"i{i}" for i in range(1, 14)), *(f"c{i}" for i in range(1, 27))],
    "sparse": [
        *({"name": f"c{i}", "column": 13 + i, "slot": i} for i in range(1, 27)),
        {"name": "c1xc2", "members": [0, 1], "slot": 27},
        {"name": "c1xc2xc9", "members": [26, 8], "slot": 28},
    ],
    "dense": [
        *({"name": f"i{i}", "column": i, "transform": "log"} for i in range(1, 12)),
        {"name": "i12", "column": 12, "transform": "min_max", "center": -2.0, "scale": 35.0},
        {"name": "i13", "column": 13},
    ],
    "labels": [{"name": "click", "column": 0}],
}


def hash52(data):
    return (xxhash.xxh64_intdigest(data) & MASK) or 1


def signed(sign):
    return sign - (1 << 64) if sign >> 63 else sign


def sign(slot, data):
    """The int64 sign of bytes; of None, that of a missing value."""
    return signed(slot << 52 | (0 if data is None else hash52(data)))


def dense(text, field):
    if text is None:
        return 0.0
    x = float(text)
    if field.get("transform") == "log":
        return math.copysign(math.log1p(abs(x)), x)
    if field.get("transform") in ("min_max", "standard"):
        return (x - field["center"]) / field["scale"]
    return x


def label(text, field):
    if field.get("positive"):
        return float(text in field["positive"])
    if field.get("at_least") is not None:
        return float(float(text) >= field["at_least"])
    return float(text)


def crossed(row, slot, members):
    return sign(slot, b"".join((row[m] & ((1 << 64) - 1)).to_bytes(8, "little") for m in members))


def row_of(schema, get, number=False):
    """One row: `get(column, place)` is a text or None; `number` says that signs are hashed as 8 bytes."""

    def key(slot, text):
        if text is not None:
            text = int(text).to_bytes(8, "little") if number else text.encode()
        return sign(slot, text)

    sparse = []
    for f in schema.get("sparse", []):
        if f.get("members"):
            sparse.append(crossed(sparse, f["slot"], f["members"]))
        else:
            sparse.append(key(f["slot"], get(f["column"], f.get("place", 0))))
    row = {
        "sparse": sparse,
        "dense": [dense(get(f["column"], f.get("place", 0)), f) for f in schema.get("dense", [])],
        "labels": [label(get(f["column"], 0), f) for f in schema.get("labels", [])],
    }
    for f in schema.get("ragged", []):
        if number:
            found = get(f["column"], None)
        elif f.get("separator"):
            text = get(f["column"], 0)
            found = [] if text is None else text.split(f["separator"])
            found = [None if piece in ("", *schema.get("missing", [])) else piece for piece in found]
        else:
            found = [get(f["column"] + i, 0) for i in range(f.get("count", 1))]
            found = [text for text in found if text is not None]
        if f.get("max_length") is not None and len(found) > f["max_length"]:
            keep_last = f.get("keep", "last") == "last"
            found = found[len(found) - f["max_length"] :] if keep_last else found[: f["max_length"]]
        row[f["name"]] = [key(f["slot"], text) for text in found]
    if schema.get("time") is not None:
        row["time"] = int(float(get(schema["time"], 0)))
    if schema.get("weight") is not None:
        row["weight"] = float(get(schema["weight"], 0))
    return row


def csv_rows(text, schema):
    """The rows of a delimited text."""
    quote = schema.get("quote")
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=schema.get("delimiter", ","),
        quotechar=quote or None,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
    )
    rows = []
    for cells in reader:
        if not cells:
            continue
        if schema.get("strip"):
            cells = [cell.strip(" ") for cell in cells]
        known = [None if cell in ("", *schema.get("missing", [])) else cell for cell in cells]
        rows.append(row_of(schema, lambda c, _, known=known: known[c]))
        if schema.get("group") is not None:
            rows[-1]["group"] = hash52(cells[schema["group"]].encode())
    return rows


def slot_rows(text, schema):
    """The rows of a slot log whose keys stand before their signs."""
    rows, head = [], schema.get("head", [])
    for line in text.splitlines():
        tokens = line.split()
        found = {i: [tokens[i]] for i in range(len(head))}
        for token in tokens[len(head) :]:
            key, _, value = token.partition(":")
            if schema.get("order") == "sign:slot":
                key, value = value, key
            if key in schema["columns"]:
                found.setdefault(schema["columns"].index(key), []).append(value)

        def get(column, place, found=found):
            values = found.get(column, [])
            return values if place is None else values[place] if place < len(values) else None

        rows.append(row_of(schema, get, number=True))
    return rows


def batch_of(rows, schema):
    """Rows in the layout of a batch."""
    batch = {}
    for name, kind in (("sparse", np.int64), ("dense", np.float32), ("labels", np.float32)):
        if name != "labels" or schema.get(name):
            batch[name] = np.array([row[name] for row in rows], kind).reshape(len(rows), len(schema.get(name, [])))
    for name, kind in (("weight", np.float32), ("group", np.int64), ("time", np.int64)):
        if schema.get(name) is not None:
            batch[name] = np.array([row[name] for row in rows], kind)
    for f in schema.get("ragged", []):
        lists = [row[f["name"]] for row in rows]
        batch[f["name"]] = np.array([s for values in lists for s in values], np.int64)
        batch[f"{f['name']}.offsets"] = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return batch


def joined(batches):
    """Several batches as one."""
    whole = {}
    for name in batches[0]:
        parts = [batch[name] for batch in batches]
        if name.endswith(".offsets"):
            whole[name] = np.cumsum([0, *np.concatenate([np.diff(part) for part in parts])], dtype=np.int64)
        else:
            whole[name] = np.concatenate(parts)
    return whole


def assert_same(batch, wanted):
    """Signs, labels and offsets to the bit; dense values to a float32's last place but one: logs of two libraries."""
    assert set(batch) == set(wanted)
    for name, array in wanted.items():
        assert batch[name].dtype == array.dtype and batch[name].shape == array.shape, name
        if name == "dense":
            np.testing.assert_allclose(batch[name], array, rtol=2.5e-7, atol=0, err_msg=name)
        else:
            np.testing.assert_array_equal(batch[name], array, err_msg=name)
