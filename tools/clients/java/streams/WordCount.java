package streams;

import static org.apache.kafka.streams.StreamsConfig.*;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;
import lab.Lab;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Counts words, exactly once, and goes on without its state directory.
 *
 * <p>WordCount BOOTSTRAP NAME DIRECTORY
 *
 * <p>NAME is the application's, and begins the names of its topics.
 *
 * <p>Nothing is cached, so that every word makes one update: the updates of a word that occurs n
 * times are 1 to n, each once.
 */
public final class WordCount {
  public static void main(String[] args) throws Exception {
    try (Lab lab = new Lab(args[0])) {
      new WordCount(lab, args[0], args[1], Path.of(args[2])).run();
    }
  }

  private final Lab lab;
  private final String name;
  private final String text;
  private final String counts;
  private final Properties properties = new Properties();

  private WordCount(Lab lab, String bootstrap, String name, Path dir) {
    this.lab = lab;
    this.name = name;
    text = name + ".text";
    counts = name + ".counts";
    Properties p = properties;
    p.put(BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    p.put(APPLICATION_ID_CONFIG, name);
    p.put(STATE_DIR_CONFIG, dir.toString());
    p.put(PROCESSING_GUARANTEE_CONFIG, EXACTLY_ONCE_V2);
    p.put(COMMIT_INTERVAL_MS_CONFIG, 100);
    p.put(STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    p.put(REPARTITION_PURGE_INTERVAL_MS_CONFIG, 100);
    p.put(DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    p.put(DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    p.put(consumerPrefix("auto.offset.reset"), "earliest");
    p.put(consumerPrefix("group.instance.id"), "only"); // comes back at once
  }

  private void run() throws Exception {
    lab.create(text, 2, Map.of());
    lab.create(counts, 2, Map.of());
    feed("the sea the land", "the sky", "a sea of clouds");
    try (App app = new App()) {
      counted(10);
      app.printStore();
    }
    lab.printTopics(name + "-");

    feed("the end of the land"); // while nobody counts
    try (App app = new App()) {
      counted(15);
      System.out.println("restored " + app.restored);
      feed("of clouds");
      counted(17);
      app.printStore();
      Lab.until("records of the repartition topic to be deleted", () -> begins() > 0);
      Lab.until("the offsets to be committed", this::committed);
    }
    printChangelog();
  }

  /** An instance, which begins without state. */
  private final class App implements AutoCloseable {
    final AtomicLong restored = new AtomicLong();
    private final KafkaStreams streams = new KafkaStreams(topology(), properties);

    App() throws Exception {
      streams.setGlobalStateRestoreListener(new Restored());
      streams.cleanUp();
      streams.start();
    }

    /** What is told of the store by the instance itself. */
    void printStore() {
      var type = QueryableStoreTypes.<String, Long>keyValueStore();
      var store = streams.store(StoreQueryParameters.fromNameAndType("counts", type));
      Map<String, Long> all = new TreeMap<>();
      try (var entries = store.all()) {
        entries.forEachRemaining(e -> all.put(e.key, e.value));
      }
      System.out.println("store " + all);
    }

    @Override
    public void close() {
      streams.close();
    }

    private final class Restored implements StateRestoreListener {
      @Override
      public void onRestoreStart(TopicPartition p, String store, long from, long to) {}

      @Override
      public void onBatchRestored(TopicPartition p, String store, long to, long count) {}

      @Override
      public void onRestoreEnd(TopicPartition p, String store, long count) {
        restored.addAndGet(count);
      }
    }
  }

  private Topology topology() {
    StreamsBuilder b = new StreamsBuilder();
    b.<String, String>stream(text)
        .flatMapValues(line -> List.of(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.as("words"))
        .count(Materialized.as("counts"))
        .toStream()
        .to(counts, Produced.with(Serdes.String(), Serdes.Long()));
    return b.build();
  }

  private void feed(String... lines) throws Exception {
    for (int i = 0; i < lines.length; i++) {
      lab.send(new ProducerRecord<>(text, i % 2, null, lines[i]));
    }
  }

  /** Waits for so many updates, and tells how many there are of each word. */
  private void counted(int updates) throws Exception {
    Map<String, List<Long>> words = new TreeMap<>();
    for (ConsumerRecord<String, Long> r : lab.read(counts, updates, new LongDeserializer())) {
      words.computeIfAbsent(r.key(), w -> new ArrayList<>()).add(r.value());
    }
    Map<String, Integer> told = new TreeMap<>();
    words.forEach(
        (word, all) -> {
          if (!all.equals(LongStream.rangeClosed(1, all.size()).boxed().toList())) {
            throw new IllegalStateException(word + " is counted " + all);
          }
          told.put(word, all.size());
        });
    System.out.println("counted " + told);
  }

  private long begins() throws Exception {
    return lab.offsets(name + "-words-repartition", OffsetSpec.earliest());
  }

  /** Whether all that was fed is committed for the group. */
  private boolean committed() throws Exception {
    var offsets = lab.admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get();
    return offsets.entrySet().stream()
            .filter(e -> e.getKey().topic().equals(text))
            .mapToLong(e -> e.getValue().offset())
            .sum()
        == lab.offsets(text, OffsetSpec.latest());
  }

  private void printChangelog() throws Exception {
    Map<String, Long> last = new TreeMap<>();
    lab.read(name + "-counts-changelog", 1, new LongDeserializer()).forEach(r -> last.put(r.key(), r.value()));
    System.out.println("changelog " + last);
  }
}
