package mirror;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import lab.Lab;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.connect.mirror.MirrorMaker;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Mirrors one cluster's topics and groups to another with MirrorMaker 2, exactly once, and moves a
 * consumer there.
 *
 * <p>Mirror BOOTSTRAP-FROM BOOTSTRAP-TO NAME
 *
 * <p>NAME begins the names of topics and groups, and is the alias of the cluster from which.
 */
public final class Mirror {
  public static void main(String[] args) throws Exception {
    try (Lab from = new Lab(args[0]);
        Lab to = new Lab(args[1])) {
      new Mirror(from, to, args).run();
    }
  }

  private final Lab from;
  private final Lab to;
  private final String bootstrapFrom;
  private final String bootstrapTo;
  private final String name;
  private final String topic;
  private final String mirrored;
  private final String group;
  private final long beginning = System.currentTimeMillis() - 3_600_000;
  private int sent;

  private Mirror(Lab from, Lab to, String[] args) {
    this.from = from;
    this.to = to;
    bootstrapFrom = args[0];
    bootstrapTo = args[1];
    name = args[2];
    topic = name + "-orders";
    mirrored = name + "." + topic;
    group = name + "-shop";
  }

  private void run() throws Exception {
    from.create(topic, 2, Map.of("retention.ms", "86400000", "segment.ms", "3600000"));
    send(10);
    consume("from", bootstrapFrom, topic, 10);

    MirrorMaker maker = start(false);
    try {
      same();
      Map<Integer, Long> ends = ends();
      Lab.until("the group's offsets", () -> committed().equals(ends));
      Lab.until("checkpoints", () -> translated().equals(ends));
      System.out.println("offsets of the group are those of the mirrored records");
      from.set(topic, "retention.ms", "43200000");
      Lab.until(
          "the changed configuration",
          () -> "43200000".equals(to.configs(mirrored).get("retention.ms")));
    } finally {
      maker.stop();
      maker.awaitStop();
    }

    send(6); // while nobody mirrors
    maker = start(true);
    try {
      same();
      Lab.until("heartbeats", () -> !upstream().isEmpty());
    } finally {
      maker.stop();
      maker.awaitStop();
    }
    consume("to", bootstrapTo, mirrored, 6);
    from.printTopics("mm2-");
    to.printTopics(name + ".");
    to.printTopics("mm2-configs." + name);
    to.printTopics("mm2-offsets." + name);
    to.printTopics("mm2-status." + name);
    System.out.println("upstream " + upstream());
  }

  /** Heartbeats take a second pair of workers, which write them where the others read. */
  private MirrorMaker start(boolean heartbeats) {
    Map<String, String> p = new HashMap<>();
    String flow = name + "->there.";
    p.put("clusters", name + ", there");
    p.put(name + ".bootstrap.servers", bootstrapFrom);
    p.put("there.bootstrap.servers", bootstrapTo);
    p.put(flow + "enabled", "true");
    p.put(flow + "topics", name + "-.*");
    p.put(flow + "groups", name + "-.*");
    p.put("there->" + name + ".emit.heartbeats.enabled", Boolean.toString(heartbeats));
    p.put("there.exactly.once.source.support", "enabled");
    p.put("sync.group.offsets.enabled", "true");
    p.put("offset.lag.max", "0");
    for (String each :
        List.of(
            "refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls",
            "sync.group.offsets", "emit.checkpoints", "emit.heartbeats")) {
      p.put(each + ".interval.seconds", "1");
    }
    for (String each :
        List.of(
            "", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.", "offset.storage.",
            "status.storage.", "config.storage.")) {
      p.put(each + "replication.factor", "-1");
    }
    p.put("plugin.discovery", "service_load");
    p.put("offset.flush.interval.ms", "200");
    p.put("offset.storage.partitions", "3");
    p.put("status.storage.partitions", "2");
    MirrorMaker maker = new MirrorMaker(p);
    maker.start();
    return maker;
  }

  private void send(int count) throws Exception {
    for (int i = 0; i < count; i++, sent++) {
      var r = new ProducerRecord<>(topic, sent % 2, beginning + 1000 * sent, "k" + sent, "v" + sent);
      r.headers().add("number", Integer.toString(sent).getBytes(StandardCharsets.UTF_8));
      from.send(r);
    }
  }

  /** Waits until the records are there, each once with all that it has. */
  private void same() throws Exception {
    Lab.until("the topic there", () -> to.exists(mirrored));
    List<String> got = tell(to.read(mirrored, sent));
    if (!got.equals(tell(from.read(topic, sent)))) {
      throw new IllegalStateException("mirrored " + got);
    }
    System.out.println("mirrored " + got.size() + " records");
  }

  private static List<String> tell(List<ConsumerRecord<String, String>> records) {
    return records.stream()
        .map(
            r ->
                String.join(
                    " ",
                    Integer.toString(r.partition()),
                    Long.toString(r.timestamp()),
                    r.key(),
                    r.value(),
                    new String(r.headers().lastHeader("number").value(), StandardCharsets.UTF_8)))
        .sorted()
        .toList();
  }

  /** Has the group read so many records, and commit. */
  private void consume(String where, String bootstrap, String topic, int count) throws Exception {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    p.put("group.id", group);
    p.put("auto.offset.reset", "earliest");
    p.put("enable.auto.commit", "false");
    List<String> keys = new ArrayList<>();
    try (var c = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
      c.subscribe(List.of(topic));
      Lab.until(
          count + " records for the group",
          () -> {
            c.poll(Duration.ofMillis(100)).forEach(r -> keys.add(r.key()));
            return keys.size() >= count;
          });
      c.commitSync();
    }
    System.out.println("consumed " + where + " " + keys.stream().sorted().toList());
  }

  /** Behind the records there, which transactions have set apart. */
  private Map<Integer, Long> ends() throws Exception {
    return to.read(mirrored, sent).stream()
        .collect(Collectors.toMap(ConsumerRecord::partition, r -> r.offset() + 1, Math::max));
  }

  private Map<Integer, Long> committed() throws Exception {
    return offsets(to.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
  }

  private Set<String> upstream() throws Exception {
    return RemoteClusterUtils.upstreamClusters(Map.of("bootstrap.servers", bootstrapTo));
  }

  private Map<Integer, Long> translated() throws Exception {
    return offsets(
        RemoteClusterUtils.translateOffsets(
            Map.of("bootstrap.servers", bootstrapTo), name, group, Duration.ofSeconds(30)));
  }

  private static Map<Integer, Long> offsets(Map<TopicPartition, OffsetAndMetadata> of) {
    return of.entrySet().stream()
        .collect(Collectors.toMap(e -> e.getKey().partition(), e -> e.getValue().offset()));
  }
}
