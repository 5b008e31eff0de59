"""gdb commands for millraced: requests and trace records of a core file, or of a daemon that gdb is attached to.

    gdb -x tools/gdb/millrace.py build/release/millraced CORE
    (gdb) millrace requests            requests being served: id, state, operation, age
    (gdb) millrace request ID          one of them, whole
    (gdb) millrace trace [ID] [COUNT]  the newest trace records, of all or of one request

Nothing in the program is called: it works on core files.
"""
import gdb

NS_PER_MS = 1e6
RECORDS = 8192   # LP_TRACE_RECORDS
EVENT_PREFIX = "LP_TRACE_"


def value(expression):
    return gdb.parse_and_eval(expression)


def text(source, limit=200):
    """Of a char array, or of a pointer to one, which may be NULL."""
    if source.type.strip_typedefs().code == gdb.TYPE_CODE_PTR and not int(source):
        return ""
    return source.string(errors="replace")[:limit]


def s3_text(slice_):
    length = int(slice_["len"])
    return slice_["data"].string(errors="replace", length=min(length, 200)) if length and int(slice_["data"]) else ""


def atomic(member):
    """The number in an _Atomic member."""
    return int(member.cast(gdb.lookup_type("unsigned long")))


# ---- requests ---------------------------------------------------------------------------------------

def gateway():
    found = value("for_debuggers")
    return found.dereference() if int(found) else None


def requests():
    """Each request that a connection has, of all loops."""
    gw = gateway()
    if gw is None:
        return
    for i in range(int(gw["loop_count"])):
        loop = gw["loops"][i]
        conn = loop["conns"]["lh_first"]
        while int(conn):
            if int(conn["request"]):
                yield i, conn["request"].dereference()
            conn = conn["entry"]["le_next"]


def newest_time():
    """The time of the last trace record: about when the process stopped."""
    times = [record[0] for record in records()]
    return max(times, default=0)


def show_requests():
    now = newest_time()
    print(f"{'request':16}  {'loop':4} {'state':12} {'ms':>10}  operation, bucket, key")
    for loop, request in requests():
        age = (now - int(request["started_ns"])) / NS_PER_MS if now else 0
        print(f"{text(request['id']):16}  {loop:<4} {str(request['state']).removeprefix('GW_'):12} {age:10.1f}  "
              f"{text(request['op']['name'])} {s3_text(request['bucket'])} {s3_text(request['key'])}")


def show_request(wanted):
    for _, request in requests():
        if text(request["id"]).upper() == wanted.upper():
            print(request.format_string(max_elements=64, pretty_structs=True))
            return
    print(f"no connection has a request {wanted}")


# ---- trace records ----------------------------------------------------------------------------------

def events():
    """By number: name, and names of the two words."""
    table = value("lp_trace_texts")
    low, high = table.type.range()
    return [tuple(text(table[i][field]) for field in ("name", "a", "b")) for i in range(low, high + 1)]


def records():
    """(time, loop, request, event, a, b) of all rings, in no order."""
    table = value("'loop/trace_ring.c'::rings")
    low, high = table.type.range()
    for i in range(low, high + 1):
        ring = table[i].cast(gdb.lookup_type("struct ring").pointer())
        if not int(ring):
            continue
        written = atomic(ring["written"])
        name = text(ring["name"])
        for n in range(max(0, written - RECORDS), written):
            record = ring["records"][n % RECORDS]
            yield (atomic(record["time"]), name, atomic(record["request"]), atomic(record["event"]), atomic(record["a"]),
                   atomic(record["b"]))


def word(name, number):
    if not name:
        return ""
    if name == "op":  # ENG_TRACE_OP()
        return f" op={text(value('eng_drive_step_names')[number & 0xff])}/{number >> 8}"
    return f" {name}={number - 2**64 if number > 2**64 - 4096 else number}"


def show_trace(request, count):
    names = events()
    wanted = int(request, 16) if request else None
    found = sorted(r for r in records() if wanted is None or r[2] == wanted)
    before = None
    for time, loop, number, event, a, b in found[-count:]:
        name, first, second = names[event]
        delta = (time - before) / 1000 if before is not None else 0
        print(f"{time / 1e9:16.6f} {delta:10.1f} us  {loop:10} {number:016X}  {name}{word(first, a)}{word(second, b)}")
        before = time
    if not found:
        print("there is no such record")


class Millrace(gdb.Command):
    """millrace requests | request ID | trace [ID] [COUNT]: what millraced was doing."""

    def __init__(self):
        super().__init__("millrace", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        words = gdb.string_to_argv(argument)
        if words[:1] == ["requests"] and len(words) == 1:
            show_requests()
        elif words[:1] == ["request"] and len(words) == 2:
            show_request(words[1])
        elif words[:1] == ["trace"] and len(words) <= 3:
            ids = [w for w in words[1:] if len(w) == 16]
            counts = [w for w in words[1:] if len(w) < 16]
            show_trace(ids[0] if ids else None, int(counts[0]) if counts else 200)
        else:
            print(self.__doc__)


Millrace()
