package steady;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes in each way of a file, as the programs of other clients do that are asked for steady: see
 * scenario/steady.go.
 *
 * <p>Steady FILE DIRECTORY TOPIC
 */
public final class Steady {
  private final Path file;
  private final Path directory;
  private final String topic;
  private final CountDownLatch stop = new CountDownLatch(1);
  private final ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();

  private Steady(Path file, Path directory, String topic) {
    this.file = file;
    this.directory = directory;
    this.topic = topic;
  }

  public static void main(String[] args) throws Exception {
    Steady s = new Steady(Path.of(args[0]), Path.of(args[1]), args[2]);
    s.run();
    if (!s.errors.isEmpty()) {
      throw new IllegalStateException(String.join("; ", s.errors));
    }
  }

  private interface Work {
    void run() throws Exception;
  }

  private void run() throws Exception {
    JsonNode ways = ways();
    AtomicInteger[] stayed = new AtomicInteger[ways.size()];
    AtomicInteger[] came = new AtomicInteger[ways.size()];
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < ways.size(); i++) {
      int way = i;
      stayed[i] = new AtomicInteger();
      came[i] = new AtomicInteger();
      String name = ways.get(i).get("name").asText();
      threads.add(start(name + ", who stays", () -> stays(ways.get(way), way, stayed[way])));
      threads.add(start(name + ", who comes new", () -> comes(way, came[way])));
    }
    while (!stop.await(50, TimeUnit.MILLISECONDS)) {
      StringBuilder b = new StringBuilder();
      for (int i = 0; i < stayed.length; i++) {
        b.append(stayed[i]).append(' ').append(came[i]).append('\n');
      }
      put(b.toString());
      if (Files.exists(directory.resolve("stop"))) {
        stop.countDown();
      }
    }
    for (Thread t : threads) {
      t.join();
    }
    if (!errors.isEmpty()) {
      put("failed: " + String.join("; ", errors) + "\n");
    }
  }

  private Thread start(String what, Work work) {
    Thread t = new Thread(() -> {
      try {
        work.run();
      } catch (Exception e) {
        errors.add(what + ": " + e);
        stop.countDown();
      }
    });
    t.start();
    return t;
  }

  private JsonNode ways() throws IOException {
    return new ObjectMapper().readTree(Files.readString(file));
  }

  private void put(String text) throws IOException {
    Path next = Files.writeString(directory.resolve("java.new"), text);
    Files.move(next, directory.resolve("java"), StandardCopyOption.ATOMIC_MOVE);
  }

  private void stays(JsonNode way, int partition, AtomicInteger count) throws Exception {
    try (KafkaProducer<String, String> p = producer(way)) {
      while (!stop.await(20, TimeUnit.MILLISECONDS)) {
        send(p, partition);
        count.incrementAndGet();
      }
    }
  }

  private void comes(int partition, AtomicInteger count) throws Exception {
    while (!stop.await(200, TimeUnit.MILLISECONDS)) {
      try (KafkaProducer<String, String> p = producer(ways().get(partition))) {
        send(p, partition);
      }
      count.incrementAndGet();
    }
  }

  private void send(KafkaProducer<String, String> p, int partition) throws Exception {
    p.send(new ProducerRecord<>(topic, partition, null, "x")).get();
  }

  private static KafkaProducer<String, String> producer(JsonNode way) throws IOException {
    Properties p = new Properties();
    List<String> brokers = new ArrayList<>();
    way.get("brokers").forEach(b -> brokers.add(b.asText()));
    p.put("bootstrap.servers", String.join(",", brokers));
    p.put("ssl.truststore.type", "PEM");
    p.put("ssl.truststore.location", way.get("ca").asText());
    p.put("security.protocol", "SSL");
    if (way.has("cert")) {
      p.put("ssl.keystore.type", "PEM");
      p.put("ssl.keystore.key", Files.readString(Path.of(way.get("key").asText())));
      p.put("ssl.keystore.certificate.chain", Files.readString(Path.of(way.get("cert").asText())));
    }
    if (way.has("mechanism")) {
      p.put("security.protocol", "SASL_SSL");
      p.put("sasl.mechanism", way.get("mechanism").asText());
      p.put("sasl.jaas.config", String.format("org.apache.kafka.common.security.scram.ScramLoginModule required username=\"%s\" password=\"%s\";",
          way.get("user").asText(), way.get("password").asText()));
    }
    return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
  }
}
