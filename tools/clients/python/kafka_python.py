"""Runs the scenarios with kafka-python."""

import queue
import re
import threading
import time

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as Errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata

import scenario
from scenario import Record


class Client:
    name = "kafka-python"
    skip = {"group consumer": "it has the classic protocol only"}

    def __init__(self, bootstrap):
        # A client that is closed while another thread polls may ask once more, and make the topic anew
        # that was deleted meanwhile.
        self.base = {"bootstrap_servers": bootstrap, "allow_auto_create_topics": False}
        self.adm = KafkaAdminClient(bootstrap_servers=bootstrap)

    @staticmethod
    def code(e):
        return getattr(e, "errno", 0)

    # Data.

    def produce(self, topic, partition, codec, records, idempotent):
        p = KafkaProducer(**self.base, compression_type=None if codec == "none" else codec, linger_ms=5, enable_idempotence=idempotent)
        send(p, topic, partition, records)
        p.close()

    def fetch(self, topic, partition, want, committed):
        level = "read_committed" if committed else "read_uncommitted"
        c = KafkaConsumer(**self.base, isolation_level=level, auto_offset_reset="earliest", fetch_max_wait_ms=100)
        c.assign([TopicPartition(topic, partition)])
        out = []
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            came = polled(c, scenario.NO_MORE)
            out += came
            if not came and len(out) >= want:
                break
        c.close()
        return out

    def offset(self, topic, partition, at):
        (o,) = self.adm.list_partition_offsets({TopicPartition(topic, partition): at}).values()
        return o.offset

    def join(self, m):
        return Member(self.base, m)

    # Administration.

    def create_topic(self, topic, partitions, configs):
        self.adm.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})

    def delete_topic(self, topic):
        self.adm.delete_topics([topic])

    def partitions(self, topic):
        (t,) = self.adm.describe_topics([topic])
        failed(Errors.for_code(t["error_code"]))
        return len(t["partitions"])

    def add_partitions(self, topic, total):
        self.adm.create_partitions({topic: total})

    def config(self, topic, name):
        r = self.adm.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        e = r["topic"][topic][name]
        return e["value"], "DYNAMIC_TOPIC_CONFIG" in str(e["config_source"])

    def set_config(self, topic, name, value):
        r = self.adm.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})])
        result = r["topic"][topic]
        if number := re.match(r"\[Error (\d+)\]", str(result)):
            raise Errors.for_code(int(number[1]))(str(result))

    def delete_before(self, topic, partition, offset):
        self.adm.delete_records({TopicPartition(topic, partition): offset})

    def groups(self):
        return [g["group_id"] for g in self.adm.list_groups()]

    def group_state(self, group):
        g = self.adm.describe_groups([group])[group]
        return g["group_state"], len(g["members"])

    def group_type(self, group):
        (g,) = [g for g in self.adm.list_groups() if g["group_id"] == group]
        return g["group_type"].lower()

    def committed(self, group, topic):
        r = self.adm.list_group_offsets([group])[group]
        return {tp.partition: o.offset for tp, o in r.items() if tp.topic == topic}

    def set_committed(self, group, topic, offsets):
        at = {TopicPartition(topic, p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()}
        for e in self.adm.alter_group_offsets(group, at).values():
            failed(e)

    def delete_offset(self, group, topic, partition):
        for e in self.adm.delete_group_offsets(group, [TopicPartition(topic, partition)]).values():
            failed(e)

    def delete_group(self, group):
        result = self.adm.delete_groups([group])[group]
        if result != "OK":
            raise getattr(Errors, result)

    def transactor(self, txn):
        return Transactor(self.base, txn)


def failed(error):
    """Raises the class of an error, where it is one."""
    if error is not Errors.NoError:
        raise error


def send(p, topic, partition, records):
    futures = [p.send(topic, r.value, r.key, r.headers, partition, r.time) for r in records]
    p.flush(30)
    for f in futures:
        f.get(30)


def polled(c, seconds):
    return [
        Record(r.key, r.value, list(r.headers), r.timestamp, r.partition, r.offset)
        for records in c.poll(int(seconds * 1000)).values()
        for r in records
    ]


class Member(ConsumerRebalanceListener):
    """Polls in a thread of its own and without a limit of time, as an iterator of messages
    would: kafka-python forgets a join that ends after the poll that it began in."""

    def __init__(self, base, m):
        self.had, self.count = set(), 0
        self.came, self.read = queue.Queue(), {}
        self.c = KafkaConsumer(
            **base, group_id=m.group, group_instance_id=m.instance, enable_auto_commit=False, auto_offset_reset="earliest",
            fetch_max_wait_ms=100, session_timeout_ms=30_000, heartbeat_interval_ms=100, retry_backoff_ms=50,
        )
        self.c.subscribe([m.topic], listener=self)
        self.topic, self.closed = m.topic, False
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        try:
            while not self.closed:
                for r in polled(self.c, 3600):
                    self.came.put(r)
        except Exception as e:
            self.came.put(e)

    def on_partitions_assigned(self, assigned):
        self.had |= {p.partition for p in assigned}
        self.count += 1

    def on_partitions_revoked(self, revoked):
        self.had -= {p.partition for p in revoked}

    def poll(self, seconds):
        out = []
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                r = self.came.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(r, Exception):
                raise r
            self.read[TopicPartition(self.topic, r.partition)] = OffsetAndMetadata(r.offset + 1, "", -1)
            out.append(r)
        return out

    def assigned(self):
        return sorted(self.had)

    def rebalances(self):
        return self.count

    def commit(self):
        if self.read:
            self.c.commit(self.read)
        self.read = {}

    def close(self):
        self.closed = True
        self.c.close(autocommit=False)
        self.thread.join()


class Transactor:
    def __init__(self, base, txn):
        self.p = KafkaProducer(**base, transactional_id=txn, linger_ms=5)
        self.p.init_transactions()

    def begin(self):
        self.p.begin_transaction()

    def produce(self, topic, partition, records):
        send(self.p, topic, partition, records)

    def offsets(self, group, topic, partition, offset):
        self.p.send_offsets_to_transaction({TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}, group)

    def end(self, commit):
        if commit:
            self.p.commit_transaction()
        else:
            self.p.abort_transaction()

    def close(self):
        self.p.close()


if __name__ == "__main__":
    scenario.main(Client)
