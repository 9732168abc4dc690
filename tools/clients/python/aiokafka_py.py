"""Runs the scenarios with aiokafka. Its event loop has a thread of its own."""

import asyncio
import logging
import ssl
import threading
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka import errors as Errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

import scenario
from scenario import Record

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def run(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)


async def started(cls, *args, **kwargs):
    """What aiokafka makes belongs to the loop that runs."""
    o = cls(*args, **kwargs)
    await o.start()
    return o


class Client:
    name = "aiokafka"
    skip = {
        "group consumer": "it has the classic protocol only",
        "alter group offsets": "it does not have the request",
        "delete group offsets": "it does not have the request",
        "delete group": "it does not have the request",
        "delete group again": "it does not have the request",
    }

    def __init__(self, bootstrap, way=None):
        self.base = {"bootstrap_servers": bootstrap}
        heard = Heard()
        try:
            if way:
                self.base |= run(secured(way))
            self.adm = run(started(AIOKafkaAdminClient, **self.base))
        except Errors.KafkaConnectionError:
            raise heard.error or Errors.KafkaConnectionError()

    @staticmethod
    def code(e):
        return 90 if isinstance(e, Errors.ProducerFenced) else getattr(e, "errno", 0)

    # Data.

    def produce(self, topic, partition, codec, records, idempotent):
        async def f():
            p = await started(
                AIOKafkaProducer, **self.base, compression_type=None if codec == "none" else codec, linger_ms=5, enable_idempotence=idempotent, acks="all"
            )
            try:
                await send(p, topic, partition, records)
            finally:
                await p.stop()

        run(f())

    def fetch(self, topic, partition, want, committed):
        async def f():
            level = "read_committed" if committed else "read_uncommitted"
            c = AIOKafkaConsumer(**self.base, isolation_level=level, auto_offset_reset="earliest", fetch_max_wait_ms=100)
            c.assign([TopicPartition(topic, partition)])
            await c.start()
            out = []
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                came = await polled(c, scenario.NO_MORE)
                out += came
                if not came and len(out) >= want:
                    break
            await c.stop()
            return out

        return run(f())

    def offset(self, topic, partition, at):
        async def f():
            c = await started(AIOKafkaConsumer, **self.base)
            tp = TopicPartition(topic, partition)
            if at == scenario.EARLIEST:
                o = (await c.beginning_offsets([tp]))[tp]
            elif at == scenario.LATEST:
                o = (await c.end_offsets([tp]))[tp]
            else:
                o = (await c.offsets_for_times({tp: at}))[tp].offset
            await c.stop()
            return o

        return run(f())

    def join(self, m):
        return Member(self.base, m)

    # Administration.

    def create_topic(self, topic, partitions, configs):
        r = run(self.adm.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)]))
        failed(r.topic_errors[0][1])

    def delete_topic(self, topic):
        r = run(self.adm.delete_topics([topic]))
        failed(r.topic_error_codes[0][1])

    def partitions(self, topic):
        """Asks for all topics: where it asks for one, it has it made."""
        for t in run(self.adm.describe_topics()):
            if t["topic"] == topic:
                return len(t["partitions"])
        raise Errors.UnknownTopicOrPartitionError

    def add_partitions(self, topic, total):
        run(self.adm.create_partitions({topic: NewPartitions(total)}))

    def config(self, topic, name):
        (r,) = run(self.adm.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        code, _, _, _, entries = r.resources[0]
        failed(code)
        e = next(e for e in entries if e[0] == name)
        dynamic_topic = 1
        return e[1], e[3] == dynamic_topic

    def set_config(self, topic, name, value):
        """Its request replaces all that was set."""
        (r,) = run(self.adm.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "-1", name: value})]))
        failed(r.resources[0][0])

    def delete_before(self, topic, partition, offset):
        run(self.adm.delete_records({TopicPartition(topic, partition): RecordsToDelete(offset)}))

    def groups(self):
        return [g[0] for g in run(self.adm.list_consumer_groups())]

    def group_state(self, group):
        (r,) = run(self.adm.describe_consumer_groups([group]))
        code, _, state, _, _, members, *_ = r.groups[0]
        failed(code)
        return state, len(members)

    def committed(self, group, topic):
        r = run(self.adm.list_consumer_group_offsets(group))
        return {tp.partition: o.offset for tp, o in r.items() if tp.topic == topic}

    def transactor(self, txn):
        return Transactor(self.base, txn)

    @staticmethod
    def sender(way, topic, partition):
        return Sender(way, topic, partition)


class Sender:
    """A producer of one partition that gets in as the way says."""

    def __init__(self, way, topic, partition):
        self.topic, self.partition = topic, partition
        base = run(secured(way))
        self.p = run(started(AIOKafkaProducer, bootstrap_servers=",".join(way["brokers"]), acks="all", **base))

    def send(self):
        run(self.p.send_and_wait(self.topic, value=b"x", partition=self.partition))

    def close(self):
        run(self.p.stop())


class Heard(logging.Handler):
    """The reason why aiokafka could not get in, which it only logs."""

    error = None

    def __init__(self):
        super().__init__()
        logging.getLogger("aiokafka").addHandler(self)

    def emit(self, record):
        for a in record.args:
            if isinstance(a, Errors.KafkaError):
                self.error = a


class Token(AbstractTokenProvider):
    def __init__(self, text):
        self.text = text

    async def token(self):
        return self.text


async def secured(way):
    context = ssl.create_default_context(cafile=way["ca"])
    if way.get("cert"):
        context.load_cert_chain(way["cert"], way["key"])
    base = {"security_protocol": "SSL", "ssl_context": context}
    if "mechanism" not in way:
        return base
    base |= {"security_protocol": "SASL_SSL", "sasl_mechanism": way["mechanism"]}
    if way["mechanism"] == "OAUTHBEARER":
        with open(way["token"]) as f:
            return base | {"sasl_oauth_token_provider": Token(f.read().strip())}
    return base | {"sasl_plain_username": way["user"], "sasl_plain_password": way["password"]}


def failed(code):
    if code:
        raise Errors.for_code(code)


async def send(p, topic, partition, records):
    futures = [
        await p.send(topic, value=r.value, key=r.key, headers=r.headers, partition=partition, timestamp_ms=r.time) for r in records
    ]
    await asyncio.gather(*futures)


async def polled(c, seconds):
    return [
        Record(r.key, r.value, list(r.headers), r.timestamp, r.partition, r.offset)
        for records in (await c.getmany(timeout_ms=int(seconds * 1000))).values()
        for r in records
    ]


class Member(ConsumerRebalanceListener):
    def __init__(self, base, m):
        self.had, self.count = set(), 0

        async def f():
            self.c = AIOKafkaConsumer(
                **base, group_id=m.group, group_instance_id=m.instance, enable_auto_commit=False, auto_offset_reset="earliest",
                fetch_max_wait_ms=100, session_timeout_ms=30_000, heartbeat_interval_ms=100, retry_backoff_ms=50,
            )
            self.c.subscribe([m.topic], listener=self)
            await self.c.start()

        run(f())

    async def on_partitions_assigned(self, assigned):
        self.had = {p.partition for p in assigned}
        self.count += 1

    async def on_partitions_revoked(self, revoked):
        self.had -= {p.partition for p in revoked}

    def poll(self, seconds):
        return run(polled(self.c, seconds))

    def assigned(self):
        return sorted(self.had)

    def rebalances(self):
        return self.count

    def commit(self):
        run(self.c.commit())

    def close(self):
        run(self.c.stop())


class Transactor:
    def __init__(self, base, txn):
        self.p = run(started(AIOKafkaProducer, **base, transactional_id=txn, linger_ms=5))

    def begin(self):
        run(self.p.begin_transaction())

    def produce(self, topic, partition, records):
        run(send(self.p, topic, partition, records))

    def offsets(self, group, topic, partition, offset):
        run(self.p.send_offsets_to_transaction({TopicPartition(topic, partition): offset}, group))

    def end(self, commit):
        run(self.p.commit_transaction() if commit else self.p.abort_transaction())

    def close(self):
        run(self.p.stop())


if __name__ == "__main__":
    scenario.main(Client)
