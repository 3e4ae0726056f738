import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;

/**
 * A receiver in which an effect happens once: {@code java Receiver.java <port>}; {@code GET /} counts effects.
 *
 * <p>The check is {@code take}. Here the inbox lives in memory, to need nothing but a JDK; yours is a table in the
 * database of the effect: each synchronized block is one transaction on it. Verify the signature before
 * (docs/executors.md).
 */
public final class Receiver {
  private static final class Entry {
    long fence = -1;
    boolean done;
  }

  private final Map<String, Entry> inbox = new HashMap<>(); // CREATE TABLE inbox (key PRIMARY KEY, fence, done)
  private final List<String> effects = new ArrayList<>();

  /** The status to answer with: 200 it is done, now or before; 409 a newer attempt is at it; 422 it cannot be done. */
  int take(String key, long fence, String body) {
    synchronized (inbox) { // 1. admit: from now on every older attempt is refused
      Entry seen = inbox.computeIfAbsent(key, absent -> new Entry());
      if (seen.done || fence < seen.fence) {
        return seen.done ? 200 : 409;
      }
      seen.fence = fence;
    }
    if (!body.startsWith("{")) { // work that takes long, or fails, belongs here, between the two
      return 422;
    }
    synchronized (inbox) { // 2. effect and key in one transaction, if nobody newer has come meanwhile
      Entry mine = inbox.get(key);
      if (mine.done || mine.fence != fence) {
        return 409;
      }
      mine.done = true;
      effects.add(body); // your effect
    }
    return 200;
  }

  private void serve(HttpExchange call) throws IOException {
    String body = new String(call.getRequestBody().readAllBytes());
    String key = call.getRequestHeaders().getFirst("Idempotency-Key");
    String fence = call.getRequestHeaders().getFirst("Waterclock-Fence");
    byte[] answer = new byte[0];
    int status = 400;
    if (call.getRequestMethod().equals("GET")) {
      status = 200;
      answer = String.valueOf(effects.size()).getBytes();
    } else if (key != null && fence != null && fence.matches("\\d{1,18}")) {
      status = take(key, Long.parseLong(fence), body);
    }
    call.sendResponseHeaders(status, answer.length == 0 ? -1 : answer.length);
    call.getResponseBody().write(answer);
    call.close();
  }

  public static void main(String[] arguments) throws IOException {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
    server.setExecutor(Executors.newCachedThreadPool());
    server.createContext("/", new Receiver()::serve);
    server.start();
  }
}
