package streams;

import static org.apache.kafka.streams.StreamsConfig.*;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import lab.Lab;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

/**
 * Joins two streams within ten seconds and five of grace, by two instances that stand by for each
 * other, of which one leaves.
 *
 * <p>Join BOOTSTRAP NAME DIRECTORY
 *
 * <p>NAME is the application's, and begins the names of its topics.
 *
 * <p>Records carry the time that they are of, in seconds from a beginning of the test's own. What
 * is on the left alone is told when its window is over.
 */
public final class Join {
  public static void main(String[] args) throws Exception {
    try (Lab lab = new Lab(args[0])) {
      new Join(lab, args[0], args[1], Path.of(args[2])).run();
    }
  }

  private final Lab lab;
  private final String bootstrap;
  private final String name;
  private final String left;
  private final String right;
  private final String pairs;
  private final Path dir;
  private final long beginning = System.currentTimeMillis() - 3_600_000;

  private Join(Lab lab, String bootstrap, String name, Path dir) {
    this.lab = lab;
    this.name = name;
    left = name + ".left";
    right = name + ".right";
    pairs = name + ".pairs";
    this.bootstrap = bootstrap;
    this.dir = dir;
  }

  private void run() throws Exception {
    for (String topic : List.of(left, right, pairs)) {
      lab.create(topic, 2, Map.of());
    }
    send(left, "a", 0, "L1");
    send(right, "a", 5, "R1");
    send(right, "a", 12, "R2"); // too late for L1
    send(left, "a", 13, "L2");
    send(left, "a", 30, "L3");
    send(left, "b", 0, "LB1");

    KafkaStreams stays = start("stays");
    KafkaStreams leaves = start("leaves");
    try {
      pairs(3);
      Lab.until("each to stand by for the other", () -> even(stays) && even(leaves));
      System.out.println("a task and a standby each");
      send(right, "a", 50, "R3");
      send(right, "b", 100, "RB1");
      pairs(5); // L3 and LB1 stay alone
      send(left, "a", 20, "late"); // alone, though it is within ten seconds of R2
      send(left, "a", 51, "L4");
      pairs(7);

      leaves.close(
          CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
      send(left, "a", 55, "L5");
      send(left, "b", 95, "LB2");
      pairs(9); // with what the other had joined before
    } finally {
      leaves.close();
      stays.close();
    }
    lab.printTopics(name + "-");
  }

  private KafkaStreams start(String client) {
    Properties p = new Properties();
    p.put(BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    p.put(APPLICATION_ID_CONFIG, name);
    p.put(CLIENT_ID_CONFIG, client);
    p.put(STATE_DIR_CONFIG, dir.resolve(client).toString());
    p.put(COMMIT_INTERVAL_MS_CONFIG, 100);
    p.put(NUM_STANDBY_REPLICAS_CONFIG, 1);
    p.put(DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
    p.put(DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    p.put(DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    p.put(consumerPrefix("auto.offset.reset"), "earliest");
    // Otherwise what stays alone is told with the first record after a second of the clock.
    p.put(InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
    KafkaStreams streams = new KafkaStreams(topology(), p);
    streams.start();
    return streams;
  }

  private Topology topology() {
    StreamsBuilder b = new StreamsBuilder();
    KStream<String, String> other = b.stream(right);
    b.<String, String>stream(left)
        .leftJoin(
            other,
            (l, r) -> l + "+" + r,
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)),
            StreamJoined.<String, String, String>as("pair").withStoreName("pair"))
        .to(pairs);
    return b.build();
  }

  /** Each key has a partition, and so a task, of its own. */
  private void send(String topic, String key, long seconds, String value) throws Exception {
    long at = beginning + 1000 * seconds;
    lab.send(new ProducerRecord<>(topic, partition(key), at, key, value));
  }

  private static int partition(String key) {
    return key.charAt(0) - 'a';
  }

  /** Waits for so many pairs, and tells them all. */
  private void pairs(int count) throws Exception {
    System.out.println(
        lab.read(pairs, count).stream()
            .map(r -> (r.timestamp() - beginning) / 1000 + " " + r.key() + " " + r.value())
            .sorted()
            .collect(Collectors.joining(", ")));
  }

  private static boolean even(KafkaStreams s) {
    return tasks(s, ThreadMetadata::activeTasks) == 1 && tasks(s, ThreadMetadata::standbyTasks) == 1;
  }

  private static long tasks(KafkaStreams s, Function<ThreadMetadata, Set<TaskMetadata>> kind) {
    return s.metadataForLocalThreads().stream().mapToLong(t -> kind.apply(t).size()).sum();
  }
}
