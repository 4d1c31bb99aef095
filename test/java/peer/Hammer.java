import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Threads that lock and unlock one name in a loop.
 *
 * <p>Each may count itself in and out at a counter in Redis while it holds the lock: whoever is not
 * the first there overlaps with another. Each grant may be told: its owner; when it was asked for,
 * granted and given back, in nanoseconds of this machine's monotonic clock; and when it was
 * granted, in microseconds of the wall clock.
 */
final class Hammer {
  private final RedissonClient redisson;
  private final Voice voice;
  private final String id;
  private final String kind;
  private final String name;
  private final int threads;
  private final long rounds; // of all threads together; 0: until the time is over
  private final long until; // by nanoTime
  private final long hold; // nanoseconds
  private final String counter; // "": none
  private final boolean tells;

  private final AtomicLong begun = new AtomicLong();
  private final AtomicLong granted = new AtomicLong();
  private final AtomicLong overlaps = new AtomicLong();
  private final AtomicLong failures = new AtomicLong();
  private volatile String failure = ""; // the last one
  private volatile boolean halted;

  Hammer(RedissonClient redisson, Voice voice, String[] words) {
    this.redisson = redisson;
    this.voice = voice;
    this.id = words[0];
    this.kind = words[3];
    this.name = words[4];
    this.threads = (int) Worker.number(words[5]);
    this.rounds = Worker.number(words[6]);
    this.until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Worker.number(words[7]));
    this.hold = TimeUnit.MICROSECONDS.toNanos(Worker.number(words[8]));
    this.counter = words[9];
    this.tells = Boolean.parseBoolean(words[10]);
  }

  void halt() {
    halted = true;
  }

  /** Returns how often the lock was had, the overlaps, the failures, and the last failure. */
  String run() throws InterruptedException {
    List<Thread> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      Thread thread = new Thread(this::loop, name + " " + i);
      thread.setDaemon(true);
      thread.start();
      all.add(thread);
    }
    for (Thread thread : all) {
      thread.join();
    }
    return granted + " " + overlaps + " " + failures + " " + failure;
  }

  private boolean goesOn() {
    if (halted) {
      return false;
    }
    return rounds > 0 ? begun.incrementAndGet() <= rounds : System.nanoTime() < until;
  }

  private void loop() {
    RLock lock = Worker.lock(redisson, kind, name);
    RAtomicLong inside = counter.isEmpty() ? null : redisson.getAtomicLong(counter);
    while (goesOn()) {
      try {
        round(lock, inside);
      } catch (RuntimeException e) {
        failures.incrementAndGet();
        failure = e.toString();
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
      }
    }
  }

  private void round(RLock lock, RAtomicLong inside) {
    long asked = System.nanoTime();
    lock.lock();
    long had = System.nanoTime();
    long wall = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    granted.incrementAndGet();
    long freed;
    try {
      stay(inside);
    } finally {
      freed = System.nanoTime();
      lock.unlock();
    }
    if (tells) {
      String owner = redisson.getId() + ":" + Thread.currentThread().getId();
      voice.say(id, "grant", owner, asked, had, freed, wall);
    }
  }

  private void stay(RAtomicLong inside) {
    if (inside != null && inside.incrementAndGet() != 1) {
      overlaps.incrementAndGet();
    }
    if (hold > 0) {
      LockSupport.parkNanos(hold);
    }
    if (inside != null) {
      inside.decrementAndGet();
    }
  }
}
