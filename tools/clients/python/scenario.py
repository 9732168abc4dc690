"""What each of the Python clients is asked to do: the scenarios of ../scenario, in their order.

A program gives its client to main, and takes

    run              everything, on topics of the client's own; a line for each scenario
    write            a sample with each codec, to the topic that all clients share
    read CLIENT ...  what these clients have written there; a line for each of them
    secure FILE      a little, in each of the ways to get in that the file has
    steady FILE DIR  one record after the other, in each of them, until it is told to stop

A client is an object with the methods that are called here; what it does not have is in its
skip, with the reason. Its code method gives Kafka's code of an error.
"""

import collections
import json
import os
import random
import sys
import threading
import time
import traceback

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SAMPLE_SIZE = 10
SAMPLE_TIME = 1_700_000_000_000
LATEST, EARLIEST = -1, -2
NO_MORE = 0.2  # seconds for which a fetch looks for what should not be there
PATIENCE = 60
GROUP_PARTITIONS = 4
EACH = 10
TRANSACTIONS = [
    "transaction commit",
    "transaction abort",
    "read committed",
    "read uncommitted",
    "transaction offsets",
    "transaction fenced",
]

# Time in milliseconds; partition and offset are set in what is read.
Record = collections.namedtuple("Record", "key value headers time partition offset", defaults=(None, None))
Membership = collections.namedtuple("Membership", "group topic instance consumer", defaults=(None, False))


class Wrong(Exception):
    """What is not as it should be."""


def sample(client, codec):
    out = []
    for i in range(SAMPLE_SIZE):
        name = f"{client}/{codec}/{i}"
        key, value = name.encode(), (name + ";").encode() * (i * 40)
        headers = [("client", client.encode()), ("codec", codec.encode()), ("bytes", b"\x00\xff\xfe\x80"), ("empty", b"")]
        if i == 0:
            value = None
        elif i == 1:
            value = b""
        elif i == 2:
            value = bytes(range(256))
        elif i == 3:
            key = None
        elif i == 4:
            key = b""
        elif i == 5:
            headers.insert(1, ("client", b"again"))
        elif i == 6:
            headers = []
        if client == "rskafka":  # to which headers are a map in order
            headers = sorted(dict(headers).items())
        out.append(Record(key, value, headers, SAMPLE_TIME + i * 1000))
    return out


def plain(name, first, n):
    return [Record(b"%d" % i, f"{name} {i}".encode(), [], SAMPLE_TIME + i) for i in range(first, first + n)]


def noise(n):
    return random.Random(1).randbytes(n)


def same(got, want):
    if len(got) != len(want):
        raise Wrong(f"{len(got)} records, want {len(want)}")
    for g, w in zip(got, want):
        same_record(g, w)


def same_record(got, want):
    for field in ("key", "value", "headers", "time"):
        g, w = getattr(got, field), getattr(want, field)
        if g != w:
            raise Wrong(f"offset {got.offset}: {field} {short(g)}, want {short(w)}")


def short(v):
    s = repr(v)
    return s if len(s) < 80 else f"{s[:80]}... ({len(v)})"


def check(what, got, want):
    if got != want:
        raise Wrong(f"{what}: {got}, want {want}")


def eventually(f):
    """Tries again: what one broker has done, another may show a moment later."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return f()
        except Exception:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


class Run:
    def __init__(self, client):
        self.c = client
        self.failed = False
        self.prefix = os.environ.get("T", client.name)

    def together(self, *chains):
        """Runs chains beside one another, and tells in their order what became of them."""
        lines = [[] for _ in chains]

        def run(chain, out):
            for name, f in chain:
                out.append(self.tell(name, f))

        threads = [threading.Thread(target=run, args=a) for a in zip(chains, lines)]
        for t in threads:
            t.start()
        for t, out in zip(threads, lines):
            t.join()
            for line in out:
                print(line, flush=True)
                self.failed |= line.startswith("fail")

    def tell(self, name, f):
        if name in self.c.skip:
            return f"skip {name}: {self.c.skip[name]}"
        began = time.monotonic()
        try:
            f()
        except Exception as e:
            traceback.print_exc()
            return f"fail {name}: {type(e).__name__} {e}"
        finally:
            print(f"{time.monotonic() - began:6.2f} s  {name}", file=sys.stderr)
        return f"ok {name}"

    def topic(self, of):
        return f"{self.prefix}-{of}"

    def create(self, of, partitions, **configs):
        """Makes a topic that keeps what it is given, however old, and waits until it is seen."""
        topic = self.topic(of)
        self.c.create_topic(topic, partitions, {"retention.ms": "-1", **{k.replace("_", "."): v for k, v in configs.items()}})
        eventually(lambda: check("partitions", self.c.partitions(topic), partitions))
        return topic

    def refused(self, codes, f, *args):
        try:
            f(*args)
        except Exception as e:
            code = self.c.code(e)
            if code not in codes:
                raise Wrong(f"code {code}, want {codes}") from e
            return
        raise Wrong(f"not refused, want code {codes}")

    # Data.

    def topics(self):
        def create():
            self.create("data", len(CODECS))
            self.create("more", 3)

        return [
            ("create topic", create),
            ("create topic again", lambda: self.refused([36], self.create, "data", len(CODECS))),
        ]

    def round_trip(self, topic, partition, codec, records, idempotent=False):
        self.c.produce(topic, partition, codec, records, idempotent)
        same(self.c.fetch(topic, partition, len(records), False), records)

    def data(self):
        data, more = self.topic("data"), self.topic("more")

        def codec(i, name):
            return [(f"produce {name}", lambda: self.round_trip(data, i, name, sample(self.c.name, name)))]

        def large():
            self.round_trip(more, 1, "none", [plain("large", 0, 1)[0]._replace(value=noise(900_000))])

        def too_large():
            small = self.create("small", 1, max_message_bytes="1000")
            record = plain("large", 0, 1)[0]._replace(value=noise(2000))
            self.refused([10], self.c.produce, small, 0, "none", [record], False)
            self.round_trip(small, 0, "none", plain("small", 0, 1))

        def empty():
            same(self.c.fetch(more, 2, 0, False), [])
            self.offset_is(more, 2, EARLIEST, 0)
            self.offset_is(more, 2, LATEST, 0)

        return [codec(i, name) for i, name in enumerate(CODECS)] + [
            [("idempotent", lambda: self.round_trip(more, 0, "none", plain("idempotent", 0, 100), True))],
            [("large record", large)],
            [("too large record", too_large)],
            [("empty topic", empty)],
        ]

    def offset_is(self, topic, partition, at, want):
        check(f"offset at {at}", self.c.offset(topic, partition, at), want)

    # Groups.

    def groups(self):
        return [
            [("group classic", lambda: self.group("classic", False))],
            [("group static", lambda: self.static("static"))],
            [("group consumer", lambda: self.group("consumer", True))],
        ]

    def group(self, of, consumer):
        topic = self.create(of, GROUP_PARTITIONS)
        self.fill(topic, 0)
        m = Membership(self.topic("group-" + of), topic, consumer=consumer)
        a = self.c.join(m)
        self.take(0, a)
        if hasattr(self.c, "group_type"):
            check("type", self.c.group_type(m.group), "consumer" if consumer else "classic")
        b = self.c.join(m)
        self.shared(a, b)
        self.settle(a, b)
        self.fill(topic, 1)
        self.take(1, a, b)
        b.close()
        self.until("the other has all", lambda: len(a.assigned()) == GROUP_PARTITIONS, a)
        a.close()
        self.fill(topic, 2)
        c = self.c.join(m)
        self.take(2, c)
        c.close()

    def static(self, of):
        topic = self.create(of, GROUP_PARTITIONS)
        group = self.topic("group-" + of)
        a = self.c.join(Membership(group, topic, "a"))
        b = self.c.join(Membership(group, topic, "b"))
        self.shared(a, b)
        self.settle(a, b)
        had, count = b.assigned(), a.rebalances()
        b.close()
        b = self.c.join(Membership(group, topic, "b"))
        self.until("the member is back", lambda: b.assigned() == had, b, a)
        self.fill(topic, 0)
        self.take(0, a, b)
        check("rebalances of the other", a.rebalances(), count)
        a.close()
        b.close()

    def fill(self, topic, turn):
        for p in range(GROUP_PARTITIONS):
            self.c.produce(topic, p, "none", plain("group", turn * EACH, EACH), False)

    def take(self, turn, *members):
        """Has the members get what fill wrote in a turn, all of it and each once, and commit."""
        got = collections.Counter()
        deadline = time.monotonic() + PATIENCE
        while len(got) < GROUP_PARTITIONS * EACH:
            if time.monotonic() > deadline:
                raise Wrong(f"{len(got)} records, want {GROUP_PARTITIONS * EACH}")
            for m in members:
                for r in m.poll(0.05):
                    same_record(r, plain("group", r.offset, 1)[0])
                    check(f"turn of record {r.offset} of partition {r.partition}", r.offset // EACH, turn)
                    if r.partition not in m.assigned():
                        raise Wrong(f"a record of partition {r.partition} from who has {m.assigned()}")
                    got[r.partition, r.offset] += 1
        check("most often", max(got.values()), 1)
        for m in members:
            m.commit()

    def shared(self, a, b):
        def halves():
            return len(a.assigned()) == len(b.assigned()) and sorted(a.assigned() + b.assigned()) == list(range(GROUP_PARTITIONS))

        self.until("each has half", halves, a, b)

    def settle(self, *members):
        """Waits until the members have had no rebalance for longer than a fetch may take."""
        quiet = None
        while quiet != (quiet := [m.rebalances() for m in members]):
            end = time.monotonic() + 0.5
            self.until("a while has passed", lambda: time.monotonic() > end, *members)

    def until(self, what, cond, *members):
        deadline = time.monotonic() + PATIENCE
        while not cond():
            if time.monotonic() > deadline:
                raise Wrong(f"not in time: {what}; there is {[m.assigned() for m in members]}")
            for m in members:
                for r in m.poll(0.05):
                    raise Wrong(f"a record that nobody wrote: {r.offset} of partition {r.partition}")

    # Administration.

    def admin(self):
        data, more = self.topic("data"), self.topic("more")
        group, topic = self.topic("group-classic"), self.topic("classic")
        all_read = {p: 3 * EACH for p in range(GROUP_PARTITIONS)}

        def list_offsets():
            self.offset_is(data, 0, EARLIEST, 0)
            self.offset_is(data, 0, LATEST, SAMPLE_SIZE)
            self.offset_is(data, 0, SAMPLE_TIME + 3000, 3)
            self.offset_is(data, 0, SAMPLE_TIME + 3001, 4)

        def config_is(topic, name, value, is_set):
            check(name, self.c.config(topic, name), (value, is_set))

        def describe_configs():
            config_is(data, "retention.ms", "-1", True)
            config_is(data, "cleanup.policy", "delete", False)

        def alter_configs():
            self.c.set_config(more, "segment.bytes", "1048576")
            eventually(lambda: config_is(more, "segment.bytes", "1048576", True))

        def alter_configs_badly():
            self.refused([40], self.c.set_config, more, "segment.bytes", "many")
            eventually(lambda: config_is(more, "segment.bytes", "1048576", True))

        def create_partitions():
            self.c.add_partitions(more, 5)
            eventually(lambda: check("partitions", self.c.partitions(more), 5))
            # Another broker may show fewer still, which some clients do not ask again about.
            eventually(lambda: self.c.produce(more, 4, "none", plain("added", 0, 5), False))
            same(self.c.fetch(more, 4, 5, False), plain("added", 0, 5))

        def delete_records():
            self.c.delete_before(data, 0, 4)
            self.offset_is(data, 0, EARLIEST, 4)

        def list_groups():
            if group not in self.c.groups():
                raise Wrong(f"{group} is not in {self.c.groups()}")

        def busy():
            m = self.c.join(Membership(self.topic("group-busy"), topic))
            self.poll_until_assigned(m)
            check("state", self.c.group_state(self.topic("group-busy")), ("Stable", 1))
            if "delete group" not in self.c.skip:
                self.refused([68], self.c.delete_group, self.topic("group-busy"))
            m.close()

        def alter_offsets():
            self.c.set_committed(group, topic, {0: 7})
            check("offsets", self.c.committed(group, topic), {**all_read, 0: 7})

        def delete_offsets():
            self.c.delete_offset(group, topic, 3)
            check("offsets", self.c.committed(group, topic), {0: 7, 1: 3 * EACH, 2: 3 * EACH})

        def delete_topic():
            self.c.delete_topic(topic)
            eventually(lambda: self.refused([3], self.c.partitions, topic))

        return [
            ("list offsets", list_offsets),
            ("describe configs", describe_configs),
            ("alter configs", alter_configs),
            ("alter configs to nonsense", alter_configs_badly),
            ("create partitions", create_partitions),
            ("create partitions that are fewer", lambda: self.refused([37], self.c.add_partitions, more, 2)),
            ("delete records", delete_records),
            ("list groups", list_groups),
            ("describe group", lambda: check("state", self.c.group_state(group), ("Empty", 0))),
            ("describe group with members", busy),
            ("group offsets", lambda: check("offsets", self.c.committed(group, topic), all_read)),
            ("alter group offsets", alter_offsets),
            ("delete group offsets", delete_offsets),
            ("delete group", lambda: self.c.delete_group(group)),
            ("delete group again", lambda: self.refused([69], self.c.delete_group, group)),
            ("delete topic", delete_topic),
            ("delete topic again", lambda: self.refused([3], self.c.delete_topic, topic)),
        ]

    def poll_until_assigned(self, m):
        self_deadline = time.monotonic() + PATIENCE
        while len(m.assigned()) < GROUP_PARTITIONS and time.monotonic() < self_deadline:
            m.poll(0.05)

    # Transactions.

    def transactions(self):
        topic, txn, group = self.topic("txns"), self.topic("txn"), self.topic("group-txn")

        def transact(commit, records):
            t = self.c.transactor(txn)
            try:
                t.begin()
                t.produce(topic, 0, records)
                t.end(commit)
            finally:
                t.close()

        def commit():
            self.create("txns", 2)
            transact(True, plain("txn", 0, 3))

        def read_committed():
            transact(True, plain("txn", 5, 2))
            same(self.c.fetch(topic, 0, 5, True), plain("txn", 0, 3) + plain("txn", 5, 2))

        def offsets():
            t = self.c.transactor(txn)
            for offset, commit, want in ((3, True, 3), (5, False, 3), (7, True, 7)):
                t.begin()
                t.produce(topic, 1, plain("offsets", 0, 1))
                t.offsets(group, topic, 0, offset)
                t.end(commit)
                eventually(lambda: check("offsets", self.c.committed(group, topic), {0: want}))
            t.close()

        def fenced():
            old = self.c.transactor(txn)
            old.begin()
            old.produce(topic, 1, plain("old", 0, 1))
            transact(True, plain("new", 7, 1))

            def go_on():
                old.produce(topic, 1, plain("old", 1, 1))
                old.end(True)

            self.refused([47, 90], go_on)
            old.close()

        return [
            ("transaction commit", commit),
            ("transaction abort", lambda: transact(False, plain("txn", 3, 2))),
            ("read committed", read_committed),
            ("read uncommitted", lambda: same(self.c.fetch(topic, 0, 7, False), plain("txn", 0, 7))),
            ("transaction offsets", offsets),
            ("transaction fenced", fenced),
        ]

    # What all clients share.

    def write(self):
        try:
            self.create("shared", len(CODECS))
        except Exception as e:
            if self.c.code(e) != 36:
                raise
        self.together([
            (f"write {codec}", lambda i=i, codec=codec: self.c.produce(self.topic("shared"), i, codec, sample(self.c.name, codec), False))
            for i, codec in enumerate(CODECS)
        ])

    def read(self, clients):
        """CLIENT may be followed by codecs, as in kcat:none,gzip, where it does not have all."""
        wrote = {}
        for c in clients:
            name, _, some = c.partition(":")
            wrote[name] = some.split(",") if some else CODECS
        have = {codec: {} for codec in CODECS}

        def fetch(i, codec):
            want = SAMPLE_SIZE * sum(codec in codecs for codecs in wrote.values())
            got = self.c.fetch(self.topic("shared"), i, want, False)
            for at in range(0, len(got), SAMPLE_SIZE):
                have[codec][got[at].key.decode().partition("/")[0]] = got[at : at + SAMPLE_SIZE]

        def compare(client):
            for codec in wrote[client]:
                if f"read {codec}" not in self.c.skip:
                    same(have[codec].get(client, []), sample(client, codec))

        self.together(*[[(f"read {codec}", lambda i=i, codec=codec: fetch(i, codec))] for i, codec in enumerate(CODECS)])
        self.together([(f"read what {client} wrote", lambda client=client: compare(client)) for client in wrote])


class Nobody:
    name = "nobody"
    skip = {}


def secure(file, open_client):
    """Goes every way of a file, one after the other. The first makes the topic, in which each has a partition."""
    with open(file) as f:
        ways = json.load(f)
    r = Run(Nobody)

    def go(i, way):
        addrs = ",".join(way["brokers"]).split(",")
        if way.get("expect") == "authentication":
            return r.refused([58], open_client, addrs, way)
        c = open_client(addrs, way)
        topic = r.topic(f"secure-{c.name}")
        if i == 0:
            r.c = c
            r.create(f"secure-{c.name}", len(ways))
        records = [Record(way["name"].encode(), b"%d" % n, [], int(time.time() * 1000)) for n in range(3)]
        if way.get("expect") == "authorization":
            return r.refused([29], c.produce, topic, i, "none", records, False)
        c.produce(topic, i, "none", records, True)
        check("records", len(c.fetch(topic, i, len(records), False)), len(records))

    for i, way in enumerate(ways):
        r.together([(way["name"], lambda: go(i, way))])
    return r


def steady(file, folder, open_client):
    """Has two producers for each way of a file: one that stays, and one that comes new for each
    record, and goes by what the file says then. Until there is a file stop in the directory it
    keeps a file there, by the client's name, with a line for each way: how many records of both
    are acknowledged. The first one that is not ends it, and is told there."""

    def ways():
        with open(file) as f:
            return json.load(f)

    def put(text):
        name = os.path.join(folder, open_client.name)
        with open(name + ".new", "w") as f:
            f.write(text)
        os.replace(name + ".new", name)

    topic = os.environ["T"] + "-steady"
    counts = [[0, 0] for _ in ways()]
    stop, errors = threading.Event(), []

    def stays(i, way):
        p = open_client.sender(way, topic, i)
        while not stop.wait(0.02):
            p.send()
            counts[i][0] += 1
        p.close()

    def comes(i):
        while not stop.wait(0.2):
            p = open_client.sender(ways()[i], topic, i)
            p.send()
            p.close()
            counts[i][1] += 1

    def guarded(what, f, *args):
        try:
            f(*args)
        except Exception as e:
            errors.append(f"{what}: {e!r}")
            stop.set()

    threads = []
    for i, way in enumerate(ways()):
        threads.append(threading.Thread(target=guarded, args=(way["name"] + ", who stays", stays, i, way)))
        threads.append(threading.Thread(target=guarded, args=(way["name"] + ", who comes new", comes, i)))
    for t in threads:
        t.start()
    while not stop.wait(0.05):
        put("".join(f"{a} {b}\n" for a, b in counts))
        if os.path.exists(os.path.join(folder, "stop")):
            stop.set()
    for t in threads:
        t.join()
    if errors:
        put("failed: " + "; ".join(errors) + "\n")
        sys.exit("\n".join(errors))


def main(open_client):
    if sys.argv[1:2] == ["steady"]:
        steady(sys.argv[2], sys.argv[3], open_client)
        return
    if sys.argv[1:2] == ["secure"]:
        end(secure(sys.argv[2], open_client))
    if "BOOTSTRAP" not in os.environ or len(sys.argv) < 2:
        sys.exit("usage: BOOTSTRAP=HOST:PORT,... PROGRAM run | write | read CLIENT... | secure FILE")
    r = Run(open_client(os.environ["BOOTSTRAP"].split(",")))
    what = sys.argv[1]
    if what == "run":
        r.together(r.topics())
        r.together(*r.data(), *r.groups(), r.transactions())
        r.together(r.admin())
    elif what == "write":
        r.write()
    elif what == "read":
        r.read(sys.argv[2:])
    else:
        sys.exit(f"{what} is none of run, write and read")
    end(r)


def end(r):
    """Threads of a client that were left behind end with the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if r.failed else 0)
