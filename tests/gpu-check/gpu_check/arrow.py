"""Reads an Arrow IPC stream: as much of the format as recordings use, and nothing of cudasnoop's.

The GPU machine need not have pyarrow. The format: Message.fbs and Schema.fbs of Apache Arrow. The
buffers are compressed with zstd, for which the system's libzstd is called.
"""

import ctypes
import struct
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

CONTINUATION = 0xFFFFFFFF
# MessageHeader and Type, by their numbers in the unions.
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3
INT, UTF8 = 2, 5
NOT_COMPRESSED = -1


class NotReadable(Exception):
    """What in the stream was not understood."""


def read(path):
    """All rows of a stream, as named tuples of its columns; null is None."""
    columns, dictionaries, row, rows = [], {}, None, []
    for kind, header, body in _messages(Path(path).read_bytes()):
        if kind == SCHEMA:
            columns = [_column(field) for field in header.tables(1)]
            row = namedtuple("Row", [column.name for column in columns])
        elif kind == DICTIONARY_BATCH:
            batch = _Batch(header.table(1), body)
            dictionaries[header.number(0, "<q")] = batch.values(_Column("", UTF8, None, None))
        elif kind == RECORD_BATCH:
            batch = _Batch(header, body)
            rows += map(row._make, zip(*[batch.named(column, dictionaries) for column in columns]))
        else:
            raise NotReadable(f"a message of type {kind}")
    return rows


def texts(path):
    """The texts of a stream's facts; of one that was cut, those before the cut.

    Of millions of rows this column alone is decompressed: the others would take minutes.
    """
    columns = []
    try:
        for kind, header, body in _messages(Path(path).read_bytes()):
            if kind == SCHEMA:
                columns = [_column(field) for field in header.tables(1)]
            elif kind == RECORD_BATCH:
                yield from filter(None, _Batch(header, body).only("text", columns))
    except (NotReadable, struct.error):
        return  # It was being written when its writer was killed.


@dataclass
class _Column:
    name: str
    type: int
    # As memoryview.cast takes it; of the index, for a dictionary.
    format: str
    dictionary: int


def _column(field):
    name, kind, encoding = field.text(0), field.number(2, "<B"), field.table(4)
    index = encoding.table(1) if encoding else field.table(3)
    format_ = None
    if encoding or kind == INT:
        letter = {8: "b", 16: "h", 32: "i", 64: "q"}[index.number(0, "<i")]
        format_ = letter if index.number(1, "<B") else letter.upper()
    elif kind != UTF8:
        raise NotReadable(f"column {name} of type {kind}")
    return _Column(name, kind, format_, encoding.number(0, "<q") if encoding else None)


class _Batch:
    """A record batch, whose buffers are taken one column after the other."""

    def __init__(self, table, body):
        self.length = table.number(0, "<q")
        self.buffers = iter(table.structs(2, "<qq"))
        self.nodes = iter(table.structs(1, "<qq"))
        self.compressed = table.table(3) is not None
        if self.compressed and table.table(3).number(0, "<b") != 1:
            raise NotReadable("a compression that is not zstd")
        self.body = body

    def named(self, column, dictionaries):
        values = self.values(column)
        if column.dictionary is None:
            return values
        names = dictionaries[column.dictionary]
        return [None if value is None else names[value] for value in values]

    def values(self, column):
        length, nulls = next(self.nodes)
        validity = self._buffer()
        if column.format is None:
            ends, text = memoryview(self._buffer()).cast("i"), self._buffer()
            values = [text[ends[i] : ends[i + 1]].decode("utf-8") for i in range(length)]
        else:
            values = memoryview(self._buffer()).cast(column.format).tolist()[:length]
        if nulls:
            values = [value if validity[i >> 3] >> (i & 7) & 1 else None for i, value in enumerate(values)]
        return values

    def only(self, name, columns):
        """One column of these, the rest unread; empty where it is not there."""
        for column in columns:
            if column.name == name:
                return self.values(column)
            next(self.nodes)
            for _ in range(3 if column.format is None else 2):
                next(self.buffers)
        return []

    def _buffer(self):
        offset, length = next(self.buffers)
        raw = self.body[offset : offset + length]
        if not self.compressed or not length:
            return raw
        size = struct.unpack_from("<q", raw)[0]
        return raw[8:] if size == NOT_COMPRESSED else _decompressed(raw[8:], size)


class _Table:
    """A table of a flatbuffer: its fields by their number."""

    def __init__(self, data, at):
        self.data, self.at = data, at
        vtable = at - struct.unpack_from("<i", data, at)[0]
        size = struct.unpack_from("<H", data, vtable)[0]
        self.fields = struct.unpack_from(f"<{size // 2 - 2}H", data, vtable + 4)

    def _place(self, field):
        offset = self.fields[field] if field < len(self.fields) else 0
        return self.at + offset if offset else None

    def _target(self, field):
        place = self._place(field)
        return None if place is None else place + struct.unpack_from("<I", self.data, place)[0]

    def number(self, field, format_):
        place = self._place(field)
        return 0 if place is None else struct.unpack_from(format_, self.data, place)[0]

    def table(self, field):
        target = self._target(field)
        return None if target is None else _Table(self.data, target)

    def text(self, field):
        target = self._target(field)
        length = struct.unpack_from("<I", self.data, target)[0]
        return self.data[target + 4 : target + 4 + length].decode("utf-8")

    def tables(self, field):
        target = self._target(field)
        for i in range(struct.unpack_from("<I", self.data, target)[0]):
            place = target + 4 + 4 * i
            yield _Table(self.data, place + struct.unpack_from("<I", self.data, place)[0])

    def structs(self, field, format_):
        target = self._target(field)
        count = struct.unpack_from("<I", self.data, target)[0]
        size = struct.calcsize(format_)
        return [struct.unpack_from(format_, self.data, target + 4 + size * i) for i in range(count)]


def _messages(data):
    """(type, header, body) of each message; the last one is the end marker, or the data was torn."""
    at = 0
    while True:
        if len(data) < at + 8:
            raise NotReadable("the stream has no end: the recording was cut")
        marker, size = struct.unpack_from("<II", data, at)
        if marker != CONTINUATION:
            raise NotReadable(f"no message begins at byte {at}")
        if size == 0:
            return
        at += 8
        message = _Table(data, at + struct.unpack_from("<I", data, at)[0])
        at += size
        length = message.number(3, "<q")
        yield message.number(1, "<B"), message.table(2), data[at : at + length]
        at += length


def _decompressed(data, size):
    library = _zstd()
    target = ctypes.create_string_buffer(size)
    got = library.ZSTD_decompress(target, size, data, len(data))
    if got != size:
        raise NotReadable("a buffer is not what zstd makes")
    return target.raw


def _zstd():
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return library
