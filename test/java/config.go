package java

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says what a JVM and its Redisson client are like. Zero values are Redisson's own.
type Config struct {
	Version string // V3 or V4; "" is V4

	Addrs   []string // host:port of the server; of the sentinels; of nodes of the cluster
	Master  string   // what the sentinels call the master; "": Addrs are not sentinels
	Cluster bool     // Addrs are nodes of a cluster

	Watchdog time.Duration // lockWatchdogTimeout
	FairWait time.Duration // fairLockWaitTimeout
	Timeout  time.Duration // of a response
	Prefix   string        // a NameMapper puts it before each name

	Subscriptions    int // connections for subscriptions
	SubscriptionsPer int // subscriptions on each connection
	Idle             int // connections that are opened at once; 0: 2, and Redisson's own if Full

	// Full has the JVM run as a server's does, for measurements. Otherwise it has a small heap, and
	// compiles only a little, which makes it start soon.
	Full bool
	// Args are more options of the JVM.
	Args []string
}

// jvmArgs are the options of the JVM.
func (c Config) jvmArgs() []string {
	args := []string{
		"-Dfile.encoding=UTF-8", "-Dslf4j.internal.verbosity=ERROR", "-XX:-UsePerfData", "-Xshare:auto",
	}
	if !c.Full {
		args = append(args, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m")
	}
	return append(args, c.Args...)
}

// peerArgs are the settings of the client, as Settings.java reads them.
func (c Config) peerArgs() []string {
	args := []string{c.mode()}
	text := func(key, value string) {
		if value != "" {
			args = append(args, key+"="+url.QueryEscape(value))
		}
	}
	number := func(key string, n int64) {
		if n != 0 {
			text(key, strconv.FormatInt(n, 10))
		}
	}
	addrs := slices.Clone(c.Addrs)
	for i, addr := range addrs {
		addrs[i] = "redis://" + addr
	}
	if c.Idle == 0 && !c.Full {
		c.Idle = 2
	}
	text("addresses", strings.Join(addrs, ","))
	text("master", c.Master)
	text("prefix", c.Prefix)
	number("watchdog", c.Watchdog.Milliseconds())
	number("fairwait", c.FairWait.Milliseconds())
	number("timeout", c.Timeout.Milliseconds())
	number("subscriptions", int64(c.Subscriptions))
	number("subscriptionsper", int64(c.SubscriptionsPer))
	number("idle", int64(c.Idle))
	return args
}

func (c Config) mode() string {
	switch {
	case c.Master != "":
		return "mode=sentinel"
	case c.Cluster:
		return "mode=cluster"
	default:
		return "mode=single"
	}
}
