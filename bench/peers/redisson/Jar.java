import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RList;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Fair locks for the benchmark, in a JVM of its own. The arguments are the server's address, the
 * same without a slow link, lockWatchdogTimeout and fairLockWaitTimeout in ms (0: the default), and
 * how many locks to take and give back before anything is measured.
 *
 * <p>Each line of the input is an id and a command with its arguments. An answer is a line with
 * that id, then "ok" and what there is to say, or "failed" and why. Answers come when they are
 * ready, in any order; the first, with id 0, says that the JVM is warm. Times are Unix ns. The end
 * of the input ends the JVM.
 */
final class Jar {
  private static final PrintStream answers =
      new PrintStream(System.out, false, StandardCharsets.UTF_8);
  private static final Map<String, CountDownLatch> releases = new ConcurrentHashMap<>();
  private static final AtomicInteger holding = new AtomicInteger();
  private static RedissonClient client;

  public static void main(String[] args) throws Exception {
    long lease = Long.parseLong(args[2]);
    long wait = Long.parseLong(args[3]);
    warm(connect(args[1], lease, wait), Integer.parseInt(args[4]));
    client = connect(args[0], lease, wait);
    answer("0", "ok");
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      obey(line.split(" "));
    }
    Runtime.getRuntime().halt(0); // threads may wait for locks
  }

  private static RedissonClient connect(String address, long lease, long wait) {
    Config config = new Config();
    config.setLockWatchdogTimeout(lease);
    if (wait > 0) {
      config.setFairLockWaitTimeout(wait);
    }
    config.useSingleServer().setAddress("redis://" + address);
    return Redisson.create(config);
  }

  private static void obey(String[] words) {
    String id = words[0];
    switch (words[1]) {
      case "now":
        answer(id, "ok " + now());
        break;
      case "lock":
        CountDownLatch release = new CountDownLatch(1);
        releases.put(id, release);
        start(id, () -> hold(id, words[2], release));
        break;
      case "unlock":
        releases.remove(words[2]).countDown();
        break;
      case "contend":
        start(id, () -> new Contest(words).run(id));
        break;
      case "cpu":
        answer(id, "ok " + cpu());
        break;
      case "threads":
        answer(id, "ok " + threads());
        break;
      default:
        answer(id, "failed unknown command " + words[1]);
    }
  }

  interface Work {
    void run() throws Exception;
  }

  private static void start(String id, Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (Throwable e) {
                answer(id, "failed " + e.toString().replace('\n', ' '));
              }
            });
    thread.setDaemon(true);
    thread.start();
  }

  private static void answer(String id, String text) {
    synchronized (answers) {
      answers.print(id + " " + text + "\n");
      answers.flush();
    }
  }

  /** The wall clock, which all processes of the machine share. */
  static long now() {
    Instant t = Instant.now();
    return t.getEpochSecond() * 1_000_000_000L + t.getNano();
  }

  /** The processor time of the JVM, in ns. */
  private static long cpu() {
    return ((com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }

  /** Answers twice: with the time of the grant, and with that of the release. */
  private static void hold(String id, String name, CountDownLatch release) throws Exception {
    RLock lock = client.getFairLock(name);
    lock.lock();
    answer(id, "ok " + now());
    holding.incrementAndGet();
    release.await();
    holding.decrementAndGet();
    long at = now();
    lock.unlock();
    answer(id, "ok " + at);
  }

  /** The threads, without those that hold a lock and do nothing. */
  private static int threads() {
    return ManagementFactory.getThreadMXBean().getThreadCount() - holding.get();
  }

  /** Half of the locks are of keys that nobody else wants, the others are waited for. */
  private static void warm(RedissonClient client, int locks) throws Exception {
    final int threads = 8;
    String mine = "warm-" + ProcessHandle.current().pid() + "-";
    AtomicReference<Throwable> failed = new AtomicReference<>();
    List<Thread> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      RLock own = client.getFairLock(mine + i);
      RLock shared = client.getFairLock(mine + "all");
      Thread thread =
          new Thread(
              () -> {
                try {
                  for (int n = 0; n < locks / threads / 2; n++) {
                    own.lock();
                    own.unlock();
                  }
                  for (int n = 0; n < locks / threads / 2; n++) {
                    shared.lock();
                    shared.unlock();
                  }
                } catch (Throwable e) {
                  failed.set(e);
                }
              });
      all.add(thread);
      thread.start();
    }
    for (Thread thread : all) {
      thread.join();
    }
    client.shutdown();
    if (failed.get() != null) {
      throw new IOException("the warm-up failed", failed.get());
    }
  }

  /** One call of lock; times are 0 for what has not happened. */
  private static final class Attempt {
    long began;
    long queued;
    long granted;
    long released;

    public String toString() {
      return began + " " + queued + " " + granted + " " + released;
    }
  }

  /** The attempts of one thread; the last may be under way. Its monitor guards them. */
  private static final class Diary {
    final List<Attempt> attempts = new ArrayList<>();
    String owner; // as the thread is called in the server's queue

    synchronized Attempt begin() {
      Attempt attempt = new Attempt();
      attempts.add(attempt);
      attempt.began = now();
      return attempt;
    }

    synchronized void end(Attempt attempt, long granted) {
      attempt.granted = granted;
      attempt.released = now();
    }

    /** Notes that the queue, which was asked for at that time, had this thread in it. */
    synchronized void seen(long asked) {
      Attempt last = attempts.get(attempts.size() - 1);
      if (last.queued == 0 && last.began < asked) {
        last.queued = now();
      }
    }
  }

  /** Threads that lock one key, hold it, and give it back, again and again. */
  private static final class Contest {
    private final String key;
    private final int first;
    private final long hold;
    private final long start;
    private final long end;
    private final long until;
    private final List<Diary> diaries = new ArrayList<>();

    /**
     * The words after the command are the key, the first thread's number, how many there are, how
     * long they hold, since when grants are of interest, when to begin to look at the queue, and
     * when to answer.
     */
    Contest(String[] words) {
      key = words[2];
      first = Integer.parseInt(words[3]);
      for (int i = 0; i < Integer.parseInt(words[4]); i++) {
        diaries.add(new Diary());
      }
      hold = Long.parseLong(words[5]);
      start = Long.parseLong(words[6]);
      end = Long.parseLong(words[7]);
      until = Long.parseLong(words[8]);
    }

    /** Answers with five numbers for each attempt: the thread's, and the times. */
    void run(String id) throws Exception {
      for (Diary diary : diaries) {
        Jar.start(id, () -> contend(diary));
      }
      sleepUntil(end);
      lookAtTheQueue();
      sleepUntil(until + hold + 50_000_000); // by then, all until then is written down
      StringBuilder said = new StringBuilder("ok");
      for (int i = 0; i < diaries.size(); i++) {
        synchronized (diaries.get(i)) {
          for (Attempt a : diaries.get(i).attempts) {
            if (a.granted == 0 || a.granted >= start) {
              said.append(' ').append(first + i).append(' ').append(a);
            }
          }
        }
      }
      answer(id, said.toString());
    }

    private void contend(Diary diary) {
      RLock lock = client.getFairLock(key);
      synchronized (diary) {
        diary.owner = client.getId() + ":" + Thread.currentThread().getId();
      }
      for (; ; ) {
        Attempt attempt = diary.begin();
        lock.lock();
        long granted = now();
        if (hold > 0) {
          for (long end = System.nanoTime() + hold, left = hold; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left); // which may return at once
          }
        }
        diary.end(attempt, granted);
        lock.unlock();
      }
    }

    /** Redisson does not tell that a thread is in line, but the queue does. */
    private void lookAtTheQueue() throws Exception {
      Map<String, Diary> byOwner = new HashMap<>();
      for (Diary diary : diaries) {
        synchronized (diary) {
          byOwner.put(diary.owner, diary);
        }
      }
      RList<String> queue =
          client.getList("redisson_lock_queue:{" + key + "}", StringCodec.INSTANCE);
      while (now() < until) {
        long asked = now();
        for (String owner : queue.readAll()) {
          Diary diary = byOwner.get(owner);
          if (diary != null) {
            diary.seen(asked);
          }
        }
        Thread.sleep(1);
      }
    }

    private static void sleepUntil(long time) throws InterruptedException {
      Thread.sleep(Math.max(0, (time - now()) / 1_000_000));
    }
  }
}
