import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import javax.sql.DataSource;

/** db-scheduler on PostgreSQL: `Peer producer` takes orders from its input, `Peer worker` works. */
public final class Peer {
  private static final int AT_ONCE = 1000;
  private static final int THREADS = 50;

  /** The table as the project's documentation has it for PostgreSQL: names and types are its interface. */
  private static final String TABLE =
      "create table if not exists scheduled_tasks (task_name text not null, task_instance text not null,"
          + " task_data bytea, execution_time timestamp with time zone not null, picked boolean not null,"
          + " picked_by text, last_success timestamp with time zone, last_failure timestamp with time zone,"
          + " consecutive_failures int, last_heartbeat timestamp with time zone, version bigint not null,"
          + " priority smallint, primary key (task_name, task_instance))";

  private static final String[] INDEXES = {
    "create index if not exists execution_time_idx on scheduled_tasks (execution_time)",
    "create index if not exists last_heartbeat_idx on scheduled_tasks (last_heartbeat)"
  };

  public static void main(String[] arguments) throws Exception {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(System.getenv("PEER_SERVER"));
    config.setMaximumPoolSize(THREADS / 2);
    DataSource source = new HikariDataSource(config);
    if (arguments[0].equals("producer")) {
      produce(source);
    } else {
      work(source);
    }
  }

  private static void work(DataSource source) throws IOException {
    Path path = Path.of(System.getenv("PEER_SINK"), ProcessHandle.current().pid() + ".stamps");
    FileChannel sink = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    OneTimeTask<Void> noop =
        Tasks.oneTime("noop").execute((instance, context) -> stamp(sink, Long.parseLong(instance.getId())));
    Scheduler scheduler =
        Scheduler.create(source, noop)
            .threads(THREADS)
            .pollUsingLockAndFetch(1.0, 4.0)
            .pollingInterval(Duration.ofMillis(50))
            .build();
    Runtime.getRuntime().addShutdownHook(new Thread(scheduler::stop));
    scheduler.start();
  }

  private static void produce(DataSource source) throws Exception {
    try (var connection = source.getConnection();
        var statement = connection.createStatement()) {
      statement.execute(TABLE);
      for (String index : INDEXES) {
        statement.execute(index);
      }
    }
    OneTimeTask<Void> noop = Tasks.oneTime("noop").execute((instance, context) -> {});
    SchedulerClient client = SchedulerClient.Builder.create(source, noop).build();
    System.out.println("ready");
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    for (String line = orders.readLine(); line != null; line = orders.readLine()) {
      String[] words = line.split(" ");
      double began = seconds();
      Instant at =
          words[0].equals("at")
              ? Instant.EPOCH.plusNanos(Math.round(Double.parseDouble(words[3]) * 1e6) * 1000)
              : Instant.now();
      enqueue(client, noop, Long.parseLong(words[1]), Long.parseLong(words[2]), at);
      System.out.printf(Locale.ROOT, "done %f %f%n", began, seconds());
    }
    System.exit(0);
  }

  private static void enqueue(SchedulerClient client, OneTimeTask<Void> noop, long first, long count, Instant at) {
    for (long begin = first; begin < first + count; begin += AT_ONCE) {
      List<TaskInstance<?>> batch = new ArrayList<>(AT_ONCE);
      for (long index = begin; index < Math.min(begin + AT_ONCE, first + count); index++) {
        batch.add(noop.instance(Long.toString(index)));
      }
      client.scheduleBatch(batch, at);
    }
  }

  private static void stamp(FileChannel sink, long index) {
    ByteBuffer bytes = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
    bytes.putLong(index).putDouble(seconds()).flip();
    try {
      sink.write(bytes);
    } catch (IOException trouble) {
      throw new UncheckedIOException(trouble);
    }
  }

  private static double seconds() {
    Instant now = Instant.now();
    return now.getEpochSecond() + now.getNano() / 1e9;
  }
}
