import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** A thread that runs its commands one after the other. */
final class Worker implements Runnable {
  private static final TimeUnit MS = TimeUnit.MILLISECONDS;

  private final BlockingQueue<String[]> commands = new LinkedBlockingQueue<>();
  private final RedissonClient redisson;
  private final Voice voice;
  private final Thread thread;
  private volatile Hammer hammer; // the one that the thread runs, or the last one

  Worker(String name, RedissonClient redisson, Voice voice) {
    this.redisson = redisson;
    this.voice = voice;
    this.thread = new Thread(this, name);
    thread.setDaemon(true);
    thread.start();
  }

  void ask(String[] words) {
    commands.add(words);
  }

  void interrupt() {
    thread.interrupt();
  }

  void halt() {
    if (hammer != null) {
      hammer.halt();
    }
  }

  @Override
  public void run() {
    while (true) {
      String[] words;
      try {
        words = commands.take();
      } catch (InterruptedException e) {
        continue; // it came too late for the command that it was meant for
      }
      try {
        voice.say(words[0], "ok", obey(words));
      } catch (Throwable e) {
        voice.say(words[0], "error", e.getClass().getName(), e.getMessage());
      }
      Thread.interrupted(); // an interrupt is for one command
    }
  }

  static RLock lock(RedissonClient redisson, String kind, String name) {
    switch (kind) {
      case "fair":
        return redisson.getFairLock(name);
      case "plain":
        return redisson.getLock(name);
      default:
        throw new IllegalArgumentException("no kind of lock: " + kind);
    }
  }

  /** words: id, thread, verb, kind, name, and what belongs to the verb; times in milliseconds. */
  private Object obey(String[] words) throws InterruptedException {
    if (words[2].equals("owner")) {
      return redisson.getId() + ":" + thread.getId();
    }
    if (words[2].equals("hammer")) {
      hammer = new Hammer(redisson, voice, words);
      return hammer.run();
    }
    RLock lock = lock(redisson, words[3], words[4]);
    switch (words[2]) {
      case "lock":
        lock.lock();
        return "";
      case "locklease":
        lock.lock(number(words[5]), MS);
        return "";
      case "lockinterruptibly":
        lock.lockInterruptibly();
        return "";
      case "trylock":
        return lock.tryLock();
      case "trylockwait": // the unit matters: see TryLockSeconds in thread.go
        return lock.tryLock(number(words[5]), TimeUnit.valueOf(words[6]));
      case "trylocklease":
        return lock.tryLock(number(words[5]), number(words[6]), MS);
      default:
        return askOf(lock, words[2]);
    }
  }

  private Object askOf(RLock lock, String verb) {
    switch (verb) {
      case "unlock":
        lock.unlock();
        return "";
      case "forceunlock":
        return lock.forceUnlock();
      case "islocked":
        return lock.isLocked();
      case "heldbyme":
        return lock.isHeldByCurrentThread();
      case "count":
        return lock.getHoldCount();
      case "ttl":
        return lock.remainTimeToLive();
      default:
        throw new IllegalArgumentException("no such verb: " + verb);
    }
  }

  static long number(String word) {
    return Long.parseLong(word);
  }
}
