import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;

/**
 * A Redisson client that is told over standard input what to do, and answers on standard output.
 *
 * <p>A command is a line: its id, the name of a thread, a verb, and words for the verb. A thread is
 * made when it is first named and runs its commands one after the other, so that a name has one
 * identity, uuid:threadId. An answer begins with the id of its command. The words are URL-encoded,
 * which leaves any text whole. The peer ends in good order when its input ends.
 */
public final class Peer {
  private final RedissonClient redisson;
  private final Voice voice;
  private final Map<String, Worker> workers = new HashMap<>();

  private Peer(RedissonClient redisson, Voice voice) {
    this.redisson = redisson;
    this.voice = voice;
  }

  public static void main(String[] args) throws IOException {
    Voice voice = new Voice();
    RedissonClient redisson = Redisson.create(Settings.of(args));
    voice.say("ready", redisson.getId());
    new Peer(redisson, voice).listen();
    redisson.shutdown(0, 5, TimeUnit.SECONDS);
    Runtime.getRuntime().halt(0); // threads that wait for locks go on otherwise
  }

  private void listen() throws IOException {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = Voice.words(line);
      Worker worker = workers.computeIfAbsent(words[1], name -> new Worker(name, redisson, voice));
      switch (words[2]) {
        case "interrupt": // these two concern what the thread is doing, so they do not wait for it
          worker.interrupt();
          voice.say(words[0], "ok");
          break;
        case "halt":
          worker.halt();
          voice.say(words[0], "ok");
          break;
        default:
          worker.ask(words);
      }
    }
  }
}
