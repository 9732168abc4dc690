import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Copies a topic with Kafka Streams, exactly once.
 *
 * <p>Copier BOOTSTRAP GROUP IN OUT DIRECTORY TRANSACTION-TIMEOUT
 *
 * <p>A record is copied to the partition that has the number of its own. How many there were of a
 * partition is counted in a store, whose changes are part of the transactions. A record that is not
 * the number it is counted to be is copied with a complaint. Now and then one is written that is
 * not to be seen: what it is in fails and is aborted.
 */
public final class Copier {
  private static final String COUNTS = "counts";
  private static final int FAIL_EVERY = 1500; // of the records of partition 0
  private static final int FAIL_FIRST = 300;

  public static void main(String[] args) {
    Properties p = new Properties();
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
    p.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(args[4]).toString());
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
    p.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), args[5]);
    p.put(StreamsConfig.producerPrefix("reconnect.backoff.max.ms"), 500);
    p.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    p.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
    p.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
    p.put(StreamsConfig.consumerPrefix("reconnect.backoff.max.ms"), 500);

    KafkaStreams streams = new KafkaStreams(topology(args[2], args[3]), p);
    streams.setUncaughtExceptionHandler(
        e -> {
          System.err.println("a thread is replaced: " + e);
          return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(30))));
    streams.start();
  }

  @SuppressWarnings("removal") // the one of two methods that is not optional
  private static Topology topology(String in, String out) {
    StreamPartitioner<Integer, String> byKey =
        (topic, key, value, partitions) -> Optional.of(Set.of(key));
    Topology t = new Topology();
    t.addSource("read", new ByteArrayDeserializer(), new StringDeserializer(), in);
    t.addProcessor("count", Count::new, "read");
    t.addStateStore(
        Stores.keyValueStoreBuilder(
            Stores.inMemoryKeyValueStore(COUNTS), Serdes.Integer(), Serdes.Long()),
        "count");
    t.addSink("write", out, new IntegerSerializer(), new StringSerializer(), byKey, "count");
    return t;
  }

  /** Counts the records of a partition, from 0. */
  private static final class Count extends ContextualProcessor<byte[], String, Integer, String> {
    private static final Set<Long> FAILED = ConcurrentHashMap.newKeySet();

    @Override
    public void process(Record<byte[], String> record) {
      KeyValueStore<Integer, Long> counts = context().getStateStore(COUNTS);
      int partition = context().recordMetadata().orElseThrow().partition();
      Long before = counts.get(partition);
      long n = before == null ? 0 : before;
      counts.put(partition, n + 1);
      if (partition == 0 && n % FAIL_EVERY == FAIL_FIRST && FAILED.add(n)) {
        write(record, partition, "aborted " + record.value());
        pause(); // that it is sent
        throw new IllegalStateException("on purpose");
      }
      boolean counted = record.value().equals(Long.toString(n));
      write(record, partition, counted ? record.value() : record.value() + " is number " + n);
    }

    private void write(Record<byte[], String> record, int partition, String value) {
      context().forward(new Record<>(partition, value, record.timestamp()));
    }

    private static void pause() {
      try {
        Thread.sleep(100);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
