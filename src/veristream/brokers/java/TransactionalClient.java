import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/**
 * A producer that is told what to do by lines of JSON, and answers each with a line of JSON.
 *
 * <p>A command is {"id": N, "do": VERB, ...}. Its answer has the same id, and an error if there was an exception.
 * Commands are executed one after the other. The answer to a send comes once the record is acknowledged or given up,
 * and other commands go on meanwhile. The process ends with its input.
 */
public final class TransactionalClient {
    private final ObjectMapper json = new ObjectMapper();
    private final PrintStream answers;
    private KafkaProducer<byte[], byte[]> producer;

    private TransactionalClient(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        System.setOut(System.err); // what else is printed is no answer
        TransactionalClient client = new TransactionalClient(answers);
        ExecutorService worker = Executors.newSingleThreadExecutor();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = client.json.readTree(line);
            worker.execute(() -> client.execute(command));
        }
        Runtime.getRuntime().halt(0); // whoever gave commands is gone, so nobody waits for what is under way
    }

    private void execute(JsonNode command) {
        ObjectNode answer = json.createObjectNode().put("id", command.get("id").asLong());
        try {
            if (command.get("do").asText().equals("send")) {
                send(command, answer);
                return; // its answer comes later
            }
            obey(command);
            tell(answer);
        } catch (Exception failure) {
            tell(answer.put("queued", false), failure);
        }
    }

    private void obey(JsonNode command) {
        String verb = command.get("do").asText();
        switch (verb) {
            case "open" -> open(command.get("properties"));
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "offsets" -> sendOffsets(command);
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> producer.close(Duration.ofMillis(command.get("timeout_ms").asLong()));
            default -> throw new IllegalArgumentException("there is no command " + verb);
        }
    }

    private void open(JsonNode settings) {
        Properties properties = new Properties();
        settings.fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void send(JsonNode command, ObjectNode answer) throws IOException {
        ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(
                        command.get("topic").asText(),
                        command.get("partition").isNull() ? null : command.get("partition").asInt(),
                        command.get("key").binaryValue(),
                        command.get("value").binaryValue());
        for (JsonNode each : command.get("headers")) {
            record.headers().add(each.get(0).asText(), each.get(1).binaryValue());
        }
        producer.send(
                record,
                (where, failure) -> {
                    if (where != null && where.partition() >= 0) {
                        answer.put("partition", where.partition());
                    }
                    if (failure == null) {
                        tell(answer.put("offset", where.offset()));
                    } else {
                        tell(answer.put("queued", true), failure);
                    }
                    pause(command.get("callback_ms").asLong());
                });
    }

    /** Keeps a callback running, as one does that has much to do; the client does nothing else meanwhile. */
    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void sendOffsets(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode each : command.get("offsets")) {
            TopicPartition place = new TopicPartition(each.get(0).asText(), each.get(1).asInt());
            offsets.put(place, new OffsetAndMetadata(each.get(2).asLong()));
        }
        ConsumerGroupMetadata group =
                new ConsumerGroupMetadata(
                        command.get("group").asText(),
                        command.get("generation").asInt(),
                        command.get("member").asText(),
                        Optional.empty());
        producer.sendOffsetsToTransaction(offsets, group);
    }

    private void tell(ObjectNode answer, Throwable failure) {
        answer.put("error", failure.getClass().getName());
        answer.put("message", String.valueOf(failure.getMessage()));
        Throwable cause = failure.getCause();
        tell(answer.put("cause", cause == null ? "" : cause.getClass().getName()));
    }

    private void tell(ObjectNode answer) {
        try {
            addIdentity(answer);
        } catch (ReflectiveOperationException | ClassCastException unknown) {
            System.err.println("this version of Kafka's client does not show its epoch: " + unknown);
        }
        synchronized (answers) {
            answers.println(answer);
            answers.flush();
        }
    }

    /** Adds the producer's id and epoch and whether it has to abort, which the client knows and does not tell. */
    private void addIdentity(ObjectNode answer) throws ReflectiveOperationException {
        if (producer == null) {
            return;
        }
        Field field = KafkaProducer.class.getDeclaredField("transactionManager");
        field.setAccessible(true);
        Object manager = field.get(producer);
        if (manager == null) {
            return; // it is not idempotent
        }
        ProducerIdAndEpoch identity = (ProducerIdAndEpoch) call(manager, "producerIdAndEpoch");
        answer.put("producer", identity.producerId).put("epoch", identity.epoch);
        answer.put("must_abort", (Boolean) call(manager, "hasAbortableError"));
    }

    private static Object call(Object one, String name) throws ReflectiveOperationException {
        Method method = one.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(one);
    }
}
