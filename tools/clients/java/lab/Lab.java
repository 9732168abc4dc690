package lab;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What the programs here share: a cluster to fill and to look at. */
public final class Lab implements AutoCloseable {
  private static final Duration LONG = Duration.ofSeconds(90); // on a busy machine

  public final Admin admin;
  public final KafkaProducer<String, String> producer;
  private final String bootstrap;

  public Lab(String bootstrap) {
    this.bootstrap = bootstrap;
    admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    producer =
        new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer());
  }

  /** Something that may fail for a while. */
  public interface Question<T> {
    T ask() throws Exception;
  }

  /** Asks until there is an answer. */
  public static <T> T await(String what, Question<Optional<T>> question) throws Exception {
    Instant end = Instant.now().plus(LONG);
    while (true) {
      Optional<T> answer = question.ask();
      if (answer.isPresent()) {
        return answer.get();
      }
      if (Instant.now().isAfter(end)) {
        throw new IllegalStateException("waited in vain for " + what);
      }
      Thread.sleep(50);
    }
  }

  /** Waits until it is so. */
  public static void until(String what, Question<Boolean> question) throws Exception {
    await(what, () -> question.ask() ? Optional.of(true) : Optional.empty());
  }

  public void create(String topic, int partitions, Map<String, String> configs) throws Exception {
    NewTopic t = new NewTopic(topic, Optional.of(partitions), Optional.empty()).configs(configs);
    admin.createTopics(List.of(t)).all().get();
  }

  public void send(ProducerRecord<String, String> record) throws Exception {
    producer.send(record).get();
  }

  /** The committed records of a topic, once there are so many. More are told, too. */
  public <V> List<ConsumerRecord<String, V>> read(String topic, int count, Deserializer<V> values)
      throws Exception {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    p.put("isolation.level", "read_committed");
    p.put("auto.offset.reset", "earliest");
    p.put("fetch.max.wait.ms", "100");
    try (var consumer = new KafkaConsumer<>(p, new StringDeserializer(), values)) {
      List<TopicPartition> all = partitions(topic);
      consumer.assign(all);
      consumer.seekToBeginning(all);
      List<ConsumerRecord<String, V>> records = new ArrayList<>();
      Map<TopicPartition, Long> ends = consumer.endOffsets(all);
      try {
        until(
            count + " records of " + topic,
            () -> {
              consumer.poll(Duration.ofMillis(100)).records(topic).forEach(records::add);
              if (records.size() < count) {
                ends.putAll(consumer.endOffsets(all));
                return false;
              }
              return ends.entrySet().stream()
                  .allMatch(e -> consumer.position(e.getKey()) >= e.getValue());
            });
      } catch (IllegalStateException e) {
        throw new IllegalStateException(e.getMessage() + ": " + records, e);
      }
      return records;
    }
  }

  public List<ConsumerRecord<String, String>> read(String topic, int count) throws Exception {
    return read(topic, count, new StringDeserializer());
  }

  public List<TopicPartition> partitions(String topic) throws Exception {
    return describe(topic).partitions().stream()
        .map(p -> new TopicPartition(topic, p.partition()))
        .toList();
  }

  /** How many records a topic has, or has had: offsets up to its end, markers among them. */
  public long offsets(String topic, OffsetSpec spec) throws Exception {
    Map<TopicPartition, OffsetSpec> of = new TreeMap<>((a, b) -> a.partition() - b.partition());
    partitions(topic).forEach(p -> of.put(p, spec));
    return admin.listOffsets(of).all().get().values().stream().mapToLong(i -> i.offset()).sum();
  }

  /** The topics whose names begin so, each with its partitions and what is set for it. */
  public void printTopics(String prefix) throws Exception {
    for (String name : admin.listTopics().names().get().stream().sorted().toList()) {
      if (name.startsWith(prefix)) {
        System.out.println(
            name + " partitions=" + describe(name).partitions().size() + " " + configs(name));
      }
    }
  }

  /** What is set for the topic itself. */
  public Map<String, String> configs(String topic) throws Exception {
    ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    Map<String, String> set = new TreeMap<>();
    admin.describeConfigs(List.of(r)).all().get().get(r).entries().stream()
        .filter(e -> e.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
        .forEach(e -> set.put(e.name(), e.value()));
    return set;
  }

  public void set(String topic, String name, String value) throws Exception {
    ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    AlterConfigOp op = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    admin.incrementalAlterConfigs(Map.of(r, List.of(op))).all().get();
  }

  public boolean exists(String topic) throws Exception {
    try {
      describe(topic);
      return true;
    } catch (ExecutionException e) {
      if (e.getCause() instanceof UnknownTopicOrPartitionException) {
        return false;
      }
      throw e;
    }
  }

  private TopicDescription describe(String topic) throws Exception {
    return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
  }

  @Override
  public void close() {
    producer.close();
    admin.close();
  }
}
