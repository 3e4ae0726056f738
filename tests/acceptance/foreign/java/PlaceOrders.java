import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.message.BinaryMessageEncoder;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Takes orders; an order and the reminder about it stand together or not at all: one Kafka transaction for both. */
public class PlaceOrders {
  static final String JOB_EVENTS = "waterclock.job-events";
  static final String ORDERS = "shop.orders";

  /** Arguments: bootstrap servers, the file job_event.avsc, then orders such as {@code o-17=40}. */
  public static void main(String[] args) throws Exception {
    Schema schema = new Schema.Parser().parse(Path.of(args[1]).toFile());
    var encoder = new BinaryMessageEncoder<GenericRecord>(GenericData.get(), schema); // Avro's single-object encoding
    Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "transactional.id", "shop.place-orders");
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
      producer.initTransactions();
      for (int i = 2; i < args.length; i++) {
        String[] order = args[i].split("=");
        place(producer, encoder, schema, order[0], Integer.parseInt(order[1]));
      }
    }
  }

  static void place(KafkaProducer<String, byte[]> producer, BinaryMessageEncoder<GenericRecord> encoder, Schema schema,
      String order, int amount) throws Exception {
    producer.beginTransaction();
    producer.send(new ProducerRecord<>(ORDERS, order, Integer.toString(amount).getBytes()));
    String job = "remind-" + order;
    var event = new ProducerRecord<>(JOB_EVENTS, "default:" + job, bytes(encoder.encode(reminder(schema, job, order))));
    event.headers().add("content-type", "application/avro".getBytes());
    event.headers().add("ce_id", ("order/" + order).getBytes()); // sent again within a day, it is ignored
    producer.send(event);
    if (amount > 0) {
      producer.commitTransaction();
      System.out.println(order + " committed");
    } else { // the payment fails, say: neither the order nor its reminder was ever there
      producer.flush();
      producer.abortTransaction();
      System.out.println(order + " aborted");
    }
  }

  /** A job that fires once, two seconds from now. What is not set here takes the default that the schema names. */
  static GenericRecord reminder(Schema schema, String job, String order) {
    long atMicros = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now().plusSeconds(2));
    return new GenericRecordBuilder(schema)
        .set("kind", new GenericData.EnumSymbol(schema.getField("kind").schema(), "CREATE"))
        .set("name", job)
        .set("handler", "demo.echo")
        .set("once_at", atMicros)
        .set("payload", ByteBuffer.wrap(("{\"order\":\"" + order + "\"}").getBytes()))
        .build();
  }

  static byte[] bytes(ByteBuffer buffer) {
    byte[] all = new byte[buffer.remaining()];
    buffer.get(all);
    return all;
  }
}
