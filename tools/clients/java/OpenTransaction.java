import java.time.Duration;
import java.util.Map;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Begins a transaction, writes a record in it, and leaves it open: it is ended by others. The
 * arguments are the brokers, a topic, a transactional ID and the transaction's timeout.
 */
public final class OpenTransaction {
    public static void main(String[] args) throws Exception {
        KafkaProducer<String, String> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", args[0], "transactional.id", args[2], "transaction.timeout.ms", args[3]),
            new StringSerializer(), new StringSerializer());
        try {
            producer.initTransactions();
            producer.beginTransaction();
            System.out.println("offset " + producer.send(new ProducerRecord<>(args[1], 0, null, "open")).get().offset());
        } finally {
            producer.close(Duration.ZERO); // which does not end the transaction
        }
    }
}
