// Receive calls of Waterclock so that each run takes effect once. The JDK alone (17 or later).
//
//     java Receiver.java 8099 whsec_...
//
// The check is `receive`; what stands around it is a server to try it with. The JDK brings no database: a map under a
// lock stands for yours. There, key, fence, effect and answer must be one transaction (see ../python/receiver.py).

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public final class Receiver {
    private static final long TOLERANCE_S = 300;
    private static final Pattern CUSTOMER = Pattern.compile("\"customer\"\\s*:\\s*\"([^\"\\\\]+)\"");

    record Answer(int status, String body) {}

    private static final class Call {
        long fence;
        String answer; // null: not done
    }

    private final byte[] secret;
    private final Map<String, Call> calls = new HashMap<>(); // your table, by key
    private final List<String> invoices = new ArrayList<>();

    Receiver(String secret) {
        this.secret = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));
    }

    synchronized Answer receive(Headers headers, byte[] body, long nowS) throws GeneralSecurityException {
        if (!isSigned(headers, body, nowS)) return new Answer(401, "wrong signature");
        String key = headers.getFirst("webhook-id"); // the run id, in every attempt
        long fence = Long.parseLong(headers.getFirst("Waterclock-Fence"));
        Call call = calls.computeIfAbsent(key, unused -> new Call());
        if (call.answer != null) return new Answer(200, call.answer); // done before: no second effect
        if (fence < call.fence) return new Answer(409, "a newer attempt of this run was here");
        call.fence = fence; // stays also if the effect fails: an older attempt must not come after this one
        try {
            call.answer = bookInvoice(body);
        } catch (IllegalArgumentException error) {
            return new Answer(422, "not booked: " + error.getMessage());
        }
        return new Answer(200, call.answer);
    }

    /** Standard Webhooks 1.0: "v1," and base64 of HMAC-SHA256; two of them while a secret is replaced. */
    private boolean isSigned(Headers headers, byte[] body, long nowS) throws GeneralSecurityException {
        String id = headers.getFirst("webhook-id");
        String sentAt = headers.getFirst("webhook-timestamp");
        String given = headers.getFirst("webhook-signature");
        if (id == null || given == null || sentAt == null || !sentAt.matches("[0-9]{1,15}")) return false;
        if (Math.abs(nowS - Long.parseLong(sentAt)) > TOLERANCE_S) return false;
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret, "HmacSHA256"));
        mac.update((id + "." + sentAt + ".").getBytes(StandardCharsets.UTF_8));
        byte[] right = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
        boolean found = false;
        for (String one : given.split(" ")) found |= MessageDigest.isEqual(right, one.getBytes(StandardCharsets.UTF_8));
        return found;
    }

    /** The effect, in the transaction of the check. Yours goes here. */
    private String bookInvoice(byte[] body) {
        Matcher customer = CUSTOMER.matcher(new String(body, StandardCharsets.UTF_8));
        if (!customer.find()) throw new IllegalArgumentException("no customer");
        invoices.add(customer.group(1));
        return "{\"invoice\": " + invoices.size() + "}";
    }

    public static void main(String[] args) throws Exception {
        Receiver receiver = new Receiver(args[1]);
        var here = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(args[0]));
        HttpServer server = HttpServer.create(here, 0);
        server.createContext("/", exchange -> {
            Answer answer;
            try {
                byte[] body = exchange.getRequestBody().readNBytes(1 << 20);
                answer = receiver.receive(exchange.getRequestHeaders(), body, System.currentTimeMillis() / 1000);
            } catch (NumberFormatException error) {
                answer = new Answer(400, "a header is missing or no number");
            } catch (GeneralSecurityException error) {
                answer = new Answer(500, "no HMAC here");
            }
            byte[] told = answer.body().getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(answer.status(), told.length);
            exchange.getResponseBody().write(told);
            exchange.close();
        });
        server.start();
        System.out.println("http://127.0.0.1:" + server.getAddress().getPort() + "/");
    }
}
