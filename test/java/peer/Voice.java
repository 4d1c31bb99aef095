import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.stream.Collectors;

/** Says lines of words. Whoever prints to System.out prints to standard error. */
final class Voice {
  private final PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true);

  Voice() {
    System.setOut(System.err);
  }

  void say(Object... words) {
    String line =
        Arrays.stream(words)
            .map(word -> URLEncoder.encode(String.valueOf(word), StandardCharsets.UTF_8))
            .collect(Collectors.joining(" "));
    synchronized (this) {
      out.print(line + "\n");
      out.flush();
    }
  }

  static String[] words(String line) {
    return Arrays.stream(line.split(" ", -1))
        .map(word -> URLDecoder.decode(word, StandardCharsets.UTF_8))
        .toArray(String[]::new);
  }
}
