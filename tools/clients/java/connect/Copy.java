package connect;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import lab.Lab;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.runtime.Connect;

/**
 * Copies a file by a source and a sink of Kafka Connect, with two workers that come and go, exactly
 * once into the topic.
 *
 * <p>Copy BOOTSTRAP NAME DIRECTORY
 *
 * <p>NAME begins the names of connectors, topics and groups.
 */
public final class Copy {
  public static void main(String[] args) throws Exception {
    try (Lab lab = new Lab(args[0])) {
      new Copy(lab, args[0], args[1], Path.of(args[2])).run();
    }
  }

  private final Lab lab;
  private final String bootstrap;
  private final String name;
  private final String source;
  private final String sink;
  private final Path from;
  private final Path to;
  private final List<Connect<?>> workers = new ArrayList<>();
  private int lines;

  private Copy(Lab lab, String bootstrap, String name, Path dir) {
    this.lab = lab;
    this.bootstrap = bootstrap;
    this.name = name;
    source = name + "-source";
    sink = name + "-sink";
    from = dir.resolve("from");
    to = dir.resolve("to");
  }

  private void run() throws Exception {
    try {
      write(10);
      start();
      start();
      connect();
      copied(10);
      await("both workers to have something to do", 2);
      printStatus(source);
      printStatus(sink);
      printOffsets();

      stopFirst();
      await("the other worker to have it all", 1);
      write(10);
      copied(20);
      stopFirst();
      write(10); // while nobody works
      start();
      copied(30);
      printOffsets();

      ask("PUT", sink + "/stop", null);
      Lab.until("the sink to have no task", () -> ask("GET", sink + "/tasks", null).isEmpty());
      System.out.println(ask("DELETE", sink + "/offsets", null).get("message").asText());
      ask("PUT", sink + "/resume", null);
      copied(60); // all once more
    } finally {
      while (!workers.isEmpty()) {
        stopFirst();
      }
    }
    lab.printTopics(name);
    System.out.println(lab.read(topic(), lines).size() + " records in the topic");
  }

  private void start() {
    Map<String, String> p = new HashMap<>();
    p.put("bootstrap.servers", bootstrap);
    p.put("group.id", name);
    p.put("listeners", "http://127.0.0.1:0");
    p.put("config.storage.topic", name + "-configs");
    p.put("offset.storage.topic", name + "-offsets");
    p.put("status.storage.topic", name + "-status");
    p.put("offset.storage.partitions", "3");
    p.put("status.storage.partitions", "2");
    for (String topic : List.of("config", "offset", "status")) {
      p.put(topic + ".storage.replication.factor", "-1");
    }
    p.put("key.converter", "org.apache.kafka.connect.storage.StringConverter");
    p.put("value.converter", "org.apache.kafka.connect.storage.StringConverter");
    p.put("plugin.discovery", "service_load");
    p.put("exactly.once.source.support", "enabled");
    p.put("offset.flush.interval.ms", "200");
    p.put("scheduled.rebalance.max.delay.ms", "0");
    workers.add(new ConnectDistributed().startConnect(p));
  }

  private void stopFirst() {
    Connect<?> worker = workers.remove(0);
    worker.stop();
    worker.awaitStop();
  }

  private void connect() throws Exception {
    String file = "org.apache.kafka.connect.file.FileStream";
    put(source, Map.of("connector.class", file + "SourceConnector", "file", from.toString(), "topic", topic()));
    put(sink, Map.of("connector.class", file + "SinkConnector", "file", to.toString(), "topics", topic()));
  }

  private String topic() {
    return name + "-lines";
  }

  private void put(String connector, Map<String, Object> config) throws Exception {
    ask("PUT", connector + "/config", new ObjectMapper().valueToTree(config));
  }

  private void write(int count) throws Exception {
    StringBuilder b = new StringBuilder();
    for (int i = 0; i < count; i++) {
      b.append("line ").append(++lines).append('\n');
    }
    Files.writeString(from, b, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }

  /** Waits until the sink has so many lines, which are those of the source, over and over. */
  private void copied(int count) throws Exception {
    Lab.until(
        count + " lines", () -> Files.exists(to) && Files.readAllLines(to).size() >= count);
    List<String> want = new ArrayList<>();
    while (want.size() < count) {
      want.addAll(Files.readAllLines(from));
    }
    List<String> got = Files.readAllLines(to);
    if (!got.equals(want)) {
      throw new IllegalStateException("copied " + got);
    }
    System.out.println("copied " + count + " lines");
  }

  /** Waits until connectors and tasks run, spread over so many workers. */
  private void await(String what, int count) throws Exception {
    Lab.until(
        what,
        () -> {
          Set<String> ids = new TreeSet<>();
          for (String connector : List.of(source, sink)) {
            JsonNode s = ask("GET", connector + "/status", null);
            List<JsonNode> all = new ArrayList<>(List.of(s.get("connector")));
            s.get("tasks").forEach(all::add);
            if (all.size() != 2 || !all.stream().allMatch(Copy::runs)) {
              return false;
            }
            all.forEach(one -> ids.add(one.get("worker_id").asText()));
          }
          return ids.size() == count;
        });
  }

  private static boolean runs(JsonNode status) {
    return status.get("state").asText().equals("RUNNING");
  }

  private void printStatus(String connector) throws Exception {
    JsonNode s = ask("GET", connector + "/status", null);
    System.out.print(connector + " " + s.get("type").asText());
    System.out.print(" " + s.get("connector").get("state").asText());
    s.get("tasks").forEach(t -> System.out.print(", task " + t.get("id") + " " + t.get("state").asText()));
    System.out.println();
  }

  /** Waits until both have got to the ends of what they read. */
  private void printOffsets() throws Exception {
    long position = Files.size(from);
    Lab.until("the source's position", () -> offset(source, "position") == position);
    var records = lab.read(topic(), lines);
    long last = records.get(records.size() - 1).offset();
    Lab.until("the sink's offset", () -> offset(sink, "kafka_offset") == last + 1);
    System.out.println("position " + position + " of the file, and the topic's last record");
  }

  private long offset(String connector, String key) throws Exception {
    JsonNode offsets = ask("GET", connector + "/offsets", null).get("offsets");
    return offsets.isEmpty() ? -1 : offsets.get(0).get("offset").get(key).asLong();
  }

  /** Asks the first worker, again while workers are between two assignments. */
  private JsonNode ask(String method, String path, JsonNode body) throws Exception {
    URI uri = workers.get(0).rest().advertisedUrl().resolve("/connectors/" + path);
    return Lab.await(
        method + " " + uri,
        () -> {
          HttpURLConnection c = (HttpURLConnection) uri.toURL().openConnection();
          c.setRequestMethod(method);
          if (body != null) {
            c.setRequestProperty("Content-Type", "application/json");
            c.setDoOutput(true);
            c.getOutputStream().write(body.toString().getBytes(StandardCharsets.UTF_8));
          }
          int code = c.getResponseCode();
          if (code == 409 || code == 404 || code == 500 || code == 503) {
            return Optional.empty();
          }
          return Optional.of(new ObjectMapper().readTree(c.getInputStream()));
        });
  }
}
