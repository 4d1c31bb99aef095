package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/redistest"
)

// finds is what the doctor finds, by check.
func finds(t *testing.T, s *redistest.Server, want int, args ...string) map[string]finding {
	t.Helper()
	found := make(map[string]finding)
	for _, f := range objects[finding](t, s, want, append([]string{"doctor"}, args...)...) {
		if f.Status != good && f.Do == "" {
			t.Errorf("%s: %s, and nothing to do about it: %s", f.Check, f.Status, f.Found)
		}
		found[f.Check] = f
	}
	return found
}

// checkFound checks one finding: its status and what it and its advice say.
func checkFound(t *testing.T, found map[string]finding, check string, want status, says ...string) {
	t.Helper()
	f := found[check]
	for _, part := range says {
		if f.Status != want || !strings.Contains(f.Found+" -> "+f.Do, part) {
			t.Errorf("%s: %+v, want %s and %q", check, f, want, part)
		}
	}
}

func TestTheDoctorFindsNothingWrongWithAGoodServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	take(t, observer(t, s), "x")
	numbers := regexp.MustCompile(`\d+\.\d\d ms|less than 1 ms`)
	address, version := s.Addr(), regexp.MustCompile(`(Redis|Valkey) \d+\.\d+\.\d+`)
	text := numbers.ReplaceAllString(prints(t, s, 0, "doctor"), "N ms")
	text = version.ReplaceAllString(strings.ReplaceAll(text, address, "ADDRESS"), "Redis V")
	want := `
ok     server       ADDRESS answers
ok     version      Redis V
ok     topology     a master without replicas: what happens to it happens to the locks
ok     rights       default may do all that is needed
ok     practice     a lock was taken, waited for, handed over in N ms, and forced
ok     latency      N ms, the slowest of 50 N ms
ok     clock        N ms from this machine's, which no lock depends on
ok     eviction     maxmemory-policy noeviction, no limit
ok     persistence  append-only file, appendfsync everysec
ok     keyspace     3 keys, with 1 lock and 0 lines under "fairlock"

10 ok, 0 notes, 0 wrong`
	text = regexp.MustCompile(`keyspace     \d keys`).ReplaceAllString(text, "keyspace     3 keys") // of the doctor's own, some expire
	if text != strings.TrimSpace(want) {
		t.Errorf("%s\nwant%s", text, want)
	}
	for _, kind := range [][]string{nil, {"--plain"}, {"--prefix", "mine"}} {
		found := finds(t, s, 0, kind...)
		if len(found) != 10 || found["practice"].Figures["handover_us"] <= 0 || found["latency"].Figures["median_us"] <= 0 || found["latency"].Figures["worst_us"] < found["latency"].Figures["median_us"] {
			t.Errorf("%q: %+v", kind, found)
		}
	}
	if keys := s.Client(t).Keys(t.Context(), "*doctor*").Val(); slices.ContainsFunc(keys, func(key string) bool { return s.Client(t).PTTL(t.Context(), key).Val() < 0 }) {
		t.Errorf("something stays: %q", keys)
	}
}

func TestTheDoctorSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	set := func(name, value string) { must(t, rdb.ConfigSet(t.Context(), name, value).Err()) }

	found := finds(t, s, 0)
	checkFound(t, found, "persistence", note, "none", "appendonly yes")
	set("save", "60 1")
	set("maxmemory-policy", "allkeys-lru")
	found = finds(t, s, 0)
	checkFound(t, found, "persistence", note, "save: 60 1", "appendonly yes")
	checkFound(t, found, "eviction", note, "allkeys-lru", "noeviction")

	set("maxmemory", "100mb")
	found = finds(t, s, 1)
	checkFound(t, found, "eviction", wrong, "allkeys-lru", "of 100.00M used", "CONFIG SET maxmemory-policy noeviction")

	set("maxmemory-policy", "noeviction")
	set("maxmemory", "1")
	found = finds(t, s, 1)
	checkFound(t, found, "eviction", wrong, "refuses new locks", "maxmemory to more")
	checkFound(t, found, "practice", wrong, "OOM", "maxmemory to more")
	set("maxmemory", "0")

	must(t, rdb.Set(t.Context(), "fairlock:lock:{stolen}", "somebody else's", time.Hour).Err())
	must(t, rdb.HSet(t.Context(), "fairlock:lock:{stuck}", "owner", "a:1", "token", "7", "since", "1").Err())
	must(t, rdb.Set(t.Context(), "fairlock:cache", "", time.Hour).Err())
	found = finds(t, s, 1)
	checkFound(t, found, "keyspace", wrong, `"fairlock:lock:{stolen}" (string instead of hash)`, `"fairlock:lock:{stuck}" (never expires)`, `"fairlock:cache"`, "DEL")
	must(t, rdb.FlushAll(t.Context()).Err())

	set("replica-serve-stale-data", "yes")
	must(t, rdb.SlaveOf(t.Context(), "127.0.0.1", "1").Err())
	found = finds(t, s, 1)
	checkFound(t, found, "topology", wrong, "a replica of 127.0.0.1:1", "its master")
	checkFound(t, found, "practice", wrong, "READONLY", "connect to the master")
}

func TestTheDoctorKnowsWhyAServerIsNotReached(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "sesame")
	for url, want := range map[string][2]string{
		"redis://127.0.0.1:1":                       {"connection refused", "start the server"},
		"redis://" + s.Addr():                       {"NOAUTH", "redis://USER:PASSWORD@HOST"},
		"redis://:open@" + s.Addr():                 {"WRONGPASS", "user or password is wrong"},
		"rediss://" + s.Addr():                      {"deadline exceeded", "TLS"},
		"unix:///no/such/socket":                    {"no such file", "unixsocket"},
		"redis://no-such-host.invalid":              {"no-such-host", ""},
		"redis://" + s.Addr() + "?master_name=main": {"sentinels", "Sentinels' addresses"},
	} {
		p := fairlockWith(t, nil, "doctor", "--json", "--redis", url).start()
		p.ends(69)
		text := strings.Join(p.rest(), "\n")
		if !strings.Contains(text, `"check":"server","status":"wrong"`) || !strings.Contains(text, want[0]) || !strings.Contains(text, want[1]) || strings.Contains(text, "open@") {
			t.Errorf("%s: %s", url, text)
		}
	}
}

// as creates a user and is the environment that makes fairlock that user.
func as(t *testing.T, s *redistest.Server, user string, rules ...string) []string {
	t.Helper()
	command := []any{"acl", "setuser", user, "reset", "on", ">pass"}
	for _, rule := range rules {
		command = append(command, rule)
	}
	must(t, s.Client(t).Do(t.Context(), command...).Err())
	return []string{"FAIRLOCK_REDIS=redis://" + user + ":pass@" + s.Addr()}
}

func TestAUserWithTheRightsThatTheDoctorAdvisesLacksNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	for prefix, flags := range map[string][]string{"fairlock": nil, "reentrant": {"--plain"}, "mine": {"--prefix", "mine"}} {
		advised := (&patient{prefix: prefix}).rule()
		_, rules, ok := strings.Cut(advised, ">PASSWORD ")
		if !ok {
			t.Fatalf("%q", advised)
		}
		env := as(t, s, prefix, strings.Fields(rules)...)
		p := fairlockWith(t, env, append([]string{"doctor"}, flags...)...).start()
		p.ends(0)
		if text := strings.Join(p.rest(), "\n"); !strings.Contains(text, "10 ok, 0 notes, 0 wrong") {
			t.Error(text)
		}
		p = fairlockWith(t, env, append([]string{"ls"}, flags...)...).start()
		if flags != nil { // without, both kinds are looked for
			p.ends(0)
		}
	}
}

func TestTheDoctorSaysWhichRightsAreMissing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, test := range []struct {
		rules  string
		check  string
		status status
		says   []string
	}{
		{"~fairlock:* +@all resetchannels", "rights", wrong, []string{"publish, subscribe", "ACL SETUSER", "&fairlock:*"}},
		{"~fairlock:* +@all resetchannels", "practice", wrong, []string{"NOPERM", "ACL SETUSER"}},
		{"~other:* +@all allchannels", "rights", wrong, []string{"eval", "~fairlock:*"}},
		{"~* +@all allchannels -hset", "practice", wrong, []string{"can't run this command", "ACL SETUSER"}},
		{"~* +@all allchannels -info -wait", "rights", note, []string{"info (", "wait (WithReplicas)", "+info"}},
		{"~* +@all allchannels -info", "version", note, []string{"not known: INFO: NOPERM", "+info"}},
		{"~* +@all allchannels -scan", "keyspace", note, []string{"NOPERM", "+scan"}},
	} {
		p := fairlockWith(t, as(t, s, "limited", strings.Fields(test.rules)...), "doctor", "--json").start()
		p.ends(map[status]int{wrong: 1}[test.status])
		for _, line := range p.rest() {
			if !strings.Contains(line, `"check":"`+test.check+`","status":"`+string(test.status)) {
				continue
			}
			for _, part := range test.says {
				if !strings.Contains(line, part) {
					t.Errorf("%s: no %q in %s", test.rules, part, line)
				}
			}
			test.says = nil
		}
		if test.says != nil {
			t.Errorf("%s: %s is not %s", test.rules, test.check, test.status)
		}
	}
}

func TestTheDoctorDisturbsNoLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	lease := take(t, locker, "x")
	waits(t, locker, "x", fairlock.Note("next"))
	finds(t, s, 0)
	must(t, lease.Err())
	inLine(t, locker, "x", 1)
	channels, err := s.Client(t).PubSubChannels(t.Context(), "*").Result()
	must(t, err)
	if len(channels) != 1 { // the waiter's
		t.Errorf("subscriptions: %q", channels)
	}
	eventually(t, "nobody but the test is connected", func() bool {
		list, err := s.Client(t).ClientList(t.Context()).Result()
		must(t, err)
		return !strings.Contains(list, "name=fairlock ")
	})
}

func TestTheDoctorReadsVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		info string
		want status
		says string
	}{
		{"redis_version:7.0.15", good, "Redis 7.0.15"},
		{"redis_version:8.2.1", good, "Redis 8.2.1"},
		{"redis_version:6.2.14", wrong, "upgrade"},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1", good, "Valkey 8.0.1"},
		{"redis_version:7.2.4\r\nvalkey_version:7.1.9", wrong, "upgrade"},
		{"redis_version:7.4.0\r\ndragonfly_version:df-v1.27", note, "df-v1.27"},
		{"redis_version:unstable", good, "unstable"},
		{"", note, "does not tell"},
	} {
		p := &patient{info: fieldsOf(test.info)}
		if f := p.version(t.Context()); f.Status != test.want || !strings.Contains(f.Found+f.Do, test.says) {
			t.Errorf("%q: %+v", test.info, f)
		}
	}
}

func TestTheDoctorSeesAClockThatWasSet(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	var universal redis.UniversalClient = rdb
	for step, want := range map[time.Duration]status{0: good, time.Second: wrong, -time.Second: wrong} {
		p := &patient{rdb: universal, clock: readClock(t.Context(), universal)}
		p.clock.server = p.clock.server.Add(-step) // as if it had gone forward since
		if f := p.clocks(t.Context()); f.Status != want || want == wrong && !strings.Contains(f.Do, "NTP") {
			t.Errorf("%v: %+v", step, f)
		}
	}
}
