"""Runs the scenarios with librdkafka, by way of confluent-kafka."""

import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, NewPartitions, NewTopic, OffsetSpec

import scenario
from scenario import Record


def secured(way):
    base = {"security.protocol": "ssl", "ssl.ca.location": way["ca"]}
    if way.get("cert"):
        base |= {"ssl.certificate.location": way["cert"], "ssl.key.location": way["key"]}
    if "mechanism" not in way:
        return base
    base |= {"security.protocol": "sasl_ssl", "sasl.mechanism": way["mechanism"]}
    if way["mechanism"] == "OAUTHBEARER":
        with open(way["token"]) as f:
            token = f.read().strip()
        return base | {"oauth_cb": lambda _: (token, time.time() + 3600)}
    return base | {"sasl.username": way["user"], "sasl.password": way["password"]}


def get_in(base):
    """Raises the error that authentication came to: what the client is then asked for just comes to no end."""
    heard = []
    p = Producer({**base, "error_cb": heard.append})
    deadline = time.monotonic() + 15
    while True:
        p.poll(0)
        try:
            p.list_topics(timeout=0.5)
            return
        except KafkaException:
            p.poll(0)
            for e in heard:
                if e.code() == KafkaError._AUTHENTICATION:
                    raise KafkaException(e)
            if time.monotonic() > deadline:
                raise


class Client:
    name = "confluent-py"
    skip = {"delete group offsets": "it does not have the request"}

    def __init__(self, bootstrap, way=None):
        self.base = {"bootstrap.servers": ",".join(bootstrap), "reconnect.backoff.max.ms": 500}
        if way:
            self.base |= secured(way)
            get_in(self.base)
        self.adm = AdminClient(self.base)

    @staticmethod
    def code(e):
        if not isinstance(e, KafkaException):
            return 0
        code = e.args[0].code()
        return {KafkaError._FENCED: 90, KafkaError._AUTHENTICATION: 58}.get(code, code)

    # Data.

    def produce(self, topic, partition, codec, records, idempotent):
        p = Producer({**self.base, "compression.type": codec, "linger.ms": 5, "enable.idempotence": idempotent, "acks": "all"})
        send(p, topic, partition, records)

    def fetch(self, topic, partition, want, committed):
        level = "read_committed" if committed else "read_uncommitted"
        c = Consumer({**self.base, "group.id": "unused", "enable.auto.commit": False, "isolation.level": level, "fetch.wait.max.ms": 100})
        c.assign([TopicPartition(topic, partition, 0)])
        out = []
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            m = c.poll(scenario.NO_MORE)
            if m is not None:
                out.append(incoming(m))
            elif len(out) >= want:
                break
        c.close()
        return out

    def offset(self, topic, partition, at):
        spec = OffsetSpec.earliest() if at == scenario.EARLIEST else OffsetSpec.latest() if at == scenario.LATEST else OffsetSpec.for_timestamp(at)
        return one(self.adm.list_offsets({TopicPartition(topic, partition): spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED)).offset

    def join(self, m):
        return Member(self.base, m)

    # Administration.

    def create_topic(self, topic, partitions, configs):
        one(self.adm.create_topics([NewTopic(topic, partitions, 1, config=configs)]))

    def delete_topic(self, topic):
        one(self.adm.delete_topics([topic]))

    def partitions(self, topic):
        return len(one(self.adm.describe_topics(TopicCollection([topic]))).partitions)

    def add_partitions(self, topic, total):
        one(self.adm.create_partitions([NewPartitions(topic, total)]))

    def config(self, topic, name):
        e = one(self.adm.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))[name]
        return e.value, e.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value

    def set_config(self, topic, name, value):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        one(self.adm.incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])]))

    def delete_before(self, topic, partition, offset):
        one(self.adm.delete_records([TopicPartition(topic, partition, offset)]))

    def groups(self):
        return [g.group_id for g in self.adm.list_consumer_groups().result().valid]

    def group_state(self, group):
        g = one(self.adm.describe_consumer_groups([group]))
        return g.state.name.capitalize(), len(g.members)

    def group_type(self, group):
        return one(self.adm.describe_consumer_groups([group])).type.name.lower()

    def committed(self, group, topic):
        r = one(self.adm.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {p.partition: p.offset for p in r.topic_partitions if p.topic == topic}

    def set_committed(self, group, topic, offsets):
        at = [TopicPartition(topic, p, o) for p, o in offsets.items()]
        one(self.adm.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, at)]))

    def delete_group(self, group):
        one(self.adm.delete_consumer_groups([group]))

    def transactor(self, txn):
        return Transactor(self.base, txn)


def one(futures):
    """The result of the only future, or its error."""
    (f,) = futures.values()
    return f.result(30)


def send(p, topic, partition, records):
    errors = []
    for r in records:
        p.produce(
            topic, partition=partition, key=r.key, value=r.value, headers=r.headers, timestamp=r.time,
            on_delivery=lambda err, _: errors.append(err),
        )
    p.flush(30)
    if len(errors) < len(records):
        raise scenario.Wrong(f"{len(records) - len(errors)} records without an answer")
    for e in errors:
        if e is not None:
            raise KafkaException(e)


def incoming(m):
    if m.error():
        raise KafkaException(m.error())
    return Record(m.key(), m.value(), m.headers() or [], m.timestamp()[1], m.partition(), m.offset())


class Member:
    def __init__(self, base, m):
        conf = {**base, "group.id": m.group, "enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100}
        if m.instance:
            conf["group.instance.id"] = m.instance
        if m.consumer:
            conf["group.protocol"] = "consumer"
        else:
            conf |= {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 100}
        self.had, self.count = set(), 0
        self.c = Consumer(conf)
        self.c.subscribe([m.topic], on_assign=self.given, on_revoke=self.taken, on_lost=self.taken)

    def given(self, _, partitions):
        self.had |= {p.partition for p in partitions}
        self.count += bool(partitions)

    def taken(self, _, partitions):
        self.had -= {p.partition for p in partitions}
        self.count += 1

    def poll(self, seconds):
        return [incoming(m) for m in self.c.consume(100, seconds)]

    def assigned(self):
        return sorted(self.had)

    def rebalances(self):
        return self.count

    def commit(self):
        try:
            self.c.commit(asynchronous=False)
        except KafkaException as e:
            if e.args[0].code() != KafkaError._NO_OFFSET:  # nothing was polled
                raise

    def close(self):
        self.c.close()


class Transactor:
    def __init__(self, base, txn):
        self.base = base
        self.p = Producer({**base, "transactional.id": txn, "linger.ms": 5})
        self.p.init_transactions(30)

    def begin(self):
        self.p.begin_transaction()

    def produce(self, topic, partition, records):
        send(self.p, topic, partition, records)

    def offsets(self, group, topic, partition, offset):
        c = Consumer({**self.base, "group.id": group})
        self.p.send_offsets_to_transaction([TopicPartition(topic, partition, offset)], c.consumer_group_metadata(), 30)
        c.close()

    def end(self, commit):
        if commit:
            self.p.commit_transaction(30)
        else:
            self.p.abort_transaction(30)

    def close(self):
        pass  # with the object


if __name__ == "__main__":
    scenario.main(Client)
