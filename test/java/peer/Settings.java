import java.util.HashMap;
import java.util.Map;
import org.redisson.api.*; // 3.x has NameMapper here,
import org.redisson.config.*; // and 4.x has it here

/** Settings of the client from arguments of the form key=value, the values URL-encoded. */
final class Settings {
  private final Map<String, String> values = new HashMap<>();

  private Settings(String[] args) {
    for (String arg : args) {
      String[] parts = arg.split("=", 2);
      values.put(parts[0], Voice.words(parts[1])[0]);
    }
  }

  static Config of(String[] args) {
    return new Settings(args).config();
  }

  private Config config() {
    Config config = new Config();
    if (values.containsKey("watchdog")) {
      config.setLockWatchdogTimeout(number("watchdog"));
    }
    if (values.containsKey("fairwait")) {
      config.setFairLockWaitTimeout(number("fairwait"));
    }
    String[] addresses = values.get("addresses").split(",");
    switch (values.get("mode")) {
      case "sentinel":
        many(
            config
                .useSentinelServers()
                .setMasterName(values.get("master"))
                .setCheckSentinelsList(false)
                .addSentinelAddress(addresses));
        break;
      case "cluster":
        many(config.useClusterServers().addNodeAddress(addresses));
        break;
      default:
        one(config.useSingleServer().setAddress(addresses[0]));
    }
    return config;
  }

  private void one(SingleServerConfig server) {
    common(server);
    if (values.containsKey("idle")) {
      server.setConnectionMinimumIdleSize((int) number("idle"));
    }
    if (values.containsKey("subscriptions")) {
      server.setSubscriptionConnectionPoolSize((int) number("subscriptions"));
    }
  }

  private void many(BaseMasterSlaveServersConfig<?> servers) {
    common(servers);
    if (values.containsKey("idle")) {
      servers.setMasterConnectionMinimumIdleSize((int) number("idle"));
      servers.setSlaveConnectionMinimumIdleSize((int) number("idle"));
    }
    if (values.containsKey("subscriptions")) {
      servers.setSubscriptionConnectionPoolSize((int) number("subscriptions"));
    }
  }

  private void common(BaseConfig<?> base) {
    if (values.containsKey("timeout")) {
      base.setTimeout((int) number("timeout"));
    }
    if (values.containsKey("subscriptionsper")) {
      base.setSubscriptionsPerConnection((int) number("subscriptionsper"));
    }
    if (values.containsKey("prefix")) {
      base.setNameMapper(new Prefix(values.get("prefix")));
    }
  }

  private long number(String key) {
    return Long.parseLong(values.get(key));
  }

  /** Puts a text before each name. */
  private static final class Prefix implements NameMapper {
    private final String text;

    Prefix(String text) {
      this.text = text;
    }

    @Override
    public String map(String name) {
      return text + name;
    }

    @Override
    public String unmap(String name) {
      return name.startsWith(text) ? name.substring(text.length()) : name;
    }
  }
}
