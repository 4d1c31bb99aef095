package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

// finding is the result of one check of the doctor.
type finding struct {
	Check, Node, Status, Found, Do string
	Figures                        map[string]int64
}

// The verdicts of the doctor.
const (
	good  = "ok"
	note  = "note"
	wrong = "wrong"
)

// finds runs the doctor with these flags and returns its findings by check.
func finds(t *testing.T, s *redistest.Server, flags ...string) map[string]finding {
	t.Helper()
	return findsAt(t, "redis://"+s.Addr(), flags...)
}

// findsAt also checks that there is advice for all that is not well, and that the exit code is
// right.
func findsAt(t *testing.T, url string, flags ...string) map[string]finding {
	t.Helper()
	p := fairlockWith(t, nil, slices.Concat([]string{"doctor", "--json", "--redis", url}, flags)...).start()
	found, code := make(map[string]finding), 0
	for _, f := range findingsOf(t, p) {
		if f.Status != good && f.Do == "" {
			t.Errorf("%s: %s, and nothing to do about it: %s", f.Check, f.Status, f.Found)
		}
		if f.Status == wrong {
			code = exit.Broken
		}
		found[f.Check] = f
	}
	if len(found) == 1 {
		code = exit.Unavailable
	}
	p.ends(code)
	return found
}

// findingsOf are the findings that a doctor prints, to its end.
func findingsOf(t *testing.T, p *tool) (all []finding) {
	t.Helper()
	for _, line := range p.rest() {
		var f finding
		must(t, json.Unmarshal([]byte(line), &f))
		all = append(all, f)
	}
	return all
}

// checkFound checks one finding: its status, and what it and its advice say.
func checkFound(t *testing.T, found map[string]finding, check string, want string, says ...string) {
	t.Helper()
	f := found[check]
	for _, part := range says {
		if f.Status != want || !strings.Contains(f.Found+" -> "+f.Do, part) {
			t.Errorf("%s: %+v, want %s and %q", check, f, want, part)
		}
	}
}

// diagnosis is what a doctor prints to its end, without what differs from run to run. A busy
// machine answers late, and the doctor says so: the latencies, whatever they are, are left out, and
// the summary and the exit code may count them.
func (p *tool) diagnosis() string {
	p.t.Helper()
	p.ended()
	text, code := strings.Join(p.rest(), "\n"), 0
	if regexp.MustCompile(`(?m)^(note|wrong) +latency `).MatchString(text) {
		text = regexp.MustCompile(`\d+ notes?, \d+ wrong$`).ReplaceAllString(text, "0 notes, 0 wrong")
	}
	if regexp.MustCompile(`(?m)^wrong +latency `).MatchString(text) {
		code = exit.Broken
	}
	p.ends(code)
	return replaced(text, []swap{
		{`(\d+(\.\d\d)?|less than 1) ms`, "N ms"},
		{`(Redis|Valkey) \d+\.\d+\.\d+`, "Redis V"},
		{`\d keys`, "N keys"}, // some of the doctor's own expire
		{`\d+ ok`, "N ok"},
		{`(?m)^(ok|note|wrong) +latency +(.+: )?N ms, the slowest of \d+ N ms\n( +-> .*\n)?`, ""},
	})
}

func TestTheDoctorFindsNothingWrongWithAGoodServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	take(t, observer(t, s), "x")
	p := launch(t, s, "doctor")
	text := strings.ReplaceAll(p.diagnosis(), s.Addr(), "ADDRESS")
	if said := p.stderr.String(); said != "" {
		t.Errorf("stderr: %s", said)
	}
	want := `
ok     server       ADDRESS answers
ok     version      Redis V
ok     topology     a master without replicas: what happens to it happens to the locks
ok     rights       default may do all that is needed
ok     practice     a lock was taken, waited for, handed over in N ms, and forced
ok     clock        N ms from this machine's, which no lock depends on
ok     eviction     maxmemory-policy noeviction, no limit
ok     persistence  append-only file, appendfsync everysec
ok     keyspace     N keys, with 1 lock and 0 lines under "fairlock"

N ok, 0 notes, 0 wrong`
	if text != strings.TrimSpace(want) {
		t.Errorf("%s\nwant%s", text, want)
	}
	for _, kind := range [][]string{nil, {"--plain"}, {"--prefix", "mine"}} {
		found := finds(t, s, kind...)
		if len(found) != 10 || found["practice"].Figures["handover_us"] <= 0 || found["latency"].Figures["median_us"] <= 0 || found["latency"].Figures["worst_us"] < found["latency"].Figures["median_us"] {
			t.Errorf("%q: %+v", kind, found)
		}
	}
	if keys := s.Client(t).Keys(t.Context(), "*doctor*").Val(); slices.ContainsFunc(keys, func(key string) bool { return s.Client(t).PTTL(t.Context(), key).Val() < 0 }) {
		t.Errorf("something stays: %q", keys)
	}
}

func TestAPrefixThatIsNoneIsForTheDoctorACommandLineThatMakesNoSense(t *testing.T) {
	t.Parallel()
	env := []string{"FAIRLOCK_REDIS=redis://127.0.0.1:1"} // nothing is sent there, or it would be 69
	for prefix, says := range map[string]string{"shop{1}": "brace", "a:lock": "lock", strings.Repeat("x", 129): "129 bytes"} {
		for _, more := range [][]string{nil, {"--plain"}, {"--redis", "quorum:127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"}} {
			p := fairlockWith(t, env, slices.Concat([]string{"doctor", "--prefix", prefix}, more)...).start()
			p.ends(exit.Usage)
			p.complains("refix", says)
		}
		p := fairlockWith(t, append(env, "FAIRLOCK_PREFIX="+prefix), "doctor").start()
		p.ends(exit.Usage)
		p.complains("the environment has FAIRLOCK_PREFIX", says)
	}
}

func TestTheDoctorSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	set := func(name, value string) { must(t, rdb.ConfigSet(t.Context(), name, value).Err()) }

	found := finds(t, s)
	checkFound(t, found, "persistence", note, "none", "appendonly yes")
	set("save", "60 1")
	set("maxmemory-policy", "allkeys-lru")
	found = finds(t, s)
	checkFound(t, found, "persistence", note, "save: 60 1", "appendonly yes")
	checkFound(t, found, "eviction", note, "allkeys-lru", "noeviction")

	set("maxmemory", "100mb")
	if objects := objects[finding](t, s, 1, "doctor"); len(objects) != 10 {
		t.Errorf("%+v", objects)
	}
	found = finds(t, s)
	checkFound(t, found, "eviction", wrong, "allkeys-lru", "of 100.00M used", "CONFIG SET maxmemory-policy noeviction")

	set("maxmemory-policy", "noeviction")
	set("maxmemory", "1")
	found = finds(t, s)
	checkFound(t, found, "eviction", wrong, "refuses new locks", "maxmemory to more")
	checkFound(t, found, "practice", wrong, "OOM", "maxmemory to more")
	set("maxmemory", "0")

	must(t, rdb.Set(t.Context(), "fairlock:lock:{stolen}", "somebody else's", time.Hour).Err())
	must(t, rdb.HSet(t.Context(), "fairlock:lock:{stuck}", "owner", "a:1", "token", "7", "since", "1").Err())
	must(t, rdb.Set(t.Context(), "fairlock:cache", "", time.Hour).Err())
	found = finds(t, s)
	checkFound(t, found, "keyspace", wrong, `"fairlock:lock:{stolen}" (string instead of hash)`, `"fairlock:lock:{stuck}" (never expires)`, `"fairlock:cache"`, "DEL")
	must(t, rdb.FlushAll(t.Context()).Err())

	set("replica-serve-stale-data", "yes")
	must(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	found = finds(t, s)
	checkFound(t, found, "topology", wrong, "a replica of 127.0.0.1:1", "its master")
	checkFound(t, found, "practice", wrong, "the server is a replica of 127.0.0.1:1", "connect to the master")
}

func TestTheDoctorDoesNotJudgeTheKeysOfALongerPrefix(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	for _, prefix := range []string{"fairlock:b", "fairlock:b:c"} {
		locker, plain := fairlock.New(rdb, fairlock.WithPrefix(prefix)), reentrant.New(rdb, reentrant.WithPrefix(prefix))
		t.Cleanup(func() { _, _ = locker.Close(), plain.Close() }) // never fail
		take(t, locker, "x:y")
		take(t, plain, "x")
	}
	const says = "with 0 locks and 0 lines under \"fairlock\"; %d keys of applications whose prefix begins with this one"
	keys := len(rdb.Keys(t.Context(), "*").Val())
	if found := finds(t, s); keys < 8 || found["keyspace"].Figures["others"] != int64(keys) {
		t.Errorf("%+v, of %d keys", found["keyspace"], keys)
	} else {
		checkFound(t, found, "keyspace", good, fmt.Sprintf(says, keys))
	}
	must(t, rdb.Set(t.Context(), "fairlock:b", "", time.Hour).Err())
	must(t, rdb.Set(t.Context(), "fairlock:queue:b:lock:x", "", time.Hour).Err())
	checkFound(t, finds(t, s), "keyspace", wrong, fmt.Sprintf(says, keys), `"fairlock:b"`, `"fairlock:queue:b:lock:x" (string instead of list)`)
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
		found := findsAt(t, url)
		checkFound(t, found, "server", wrong, want[0], want[1])
		if len(found) != 1 || strings.Contains(found["server"].Found, "open") {
			t.Errorf("%s: %v", url, found)
		}
	}
	p := fairlockWith(t, nil, "doctor", "--json", "--redis", "redis://127.0.0.1:1").start()
	p.ends(69)
	if line := p.line(); !strings.HasPrefix(line, `{"check":"server","status":"wrong","found":"127.0.0.1:1: `) {
		t.Error(line)
	}
}

// as creates a user and returns the URL for it.
func as(t *testing.T, s *redistest.Server, user string, rules ...string) (url string) {
	t.Helper()
	command := []any{"acl", "setuser", user, "reset", "on", ">pass"}
	for _, rule := range rules {
		command = append(command, rule)
	}
	must(t, s.Client(t).Do(t.Context(), command...).Err())
	return "redis://" + user + ":pass@" + s.Addr()
}

// The doctor advises what locks need. Then it asks for what it would like itself.
func TestAUserWithTheRightsThatTheDoctorAdvisesLacksNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	for prefix, flags := range map[string][]string{"fairlock": nil, "fairlock:plain": {"--plain"}, "mine": {"--prefix", "mine"}} {
		user := strings.ReplaceAll(prefix, ":", "-")
		advised := func(found map[string]finding) []string {
			_, rules, ok := strings.Cut(found["rights"].Do, ">PASSWORD ")
			if !ok {
				t.Fatalf("%+v", found["rights"])
			}
			return strings.Fields(rules)
		}
		rules := advised(findsAt(t, as(t, s, user, "~*", "+@all", "resetchannels"), flags...))
		found := findsAt(t, as(t, s, user, rules...), flags...)
		checkFound(t, found, "practice", good)
		checkFound(t, found, "rights", note, "is refused scan (ls), wait (WithReplicas)", " +scan +wait")
		checkFound(t, found, "keyspace", note, "allow +dbsize +scan +type")
		rules = append(advised(found), "+dbsize", "+scan", "+type")
		looks(t, as(t, s, user, rules...), flags...)
		for _, f := range findsAt(t, as(t, s, user, rules...), flags...) {
			if f.Check != "latency" && f.Status != good { // that may be anything on a busy machine
				t.Errorf("%s: %+v", rules, f)
			}
		}
	}
}

// looks has a user look at the locks, of which there are none.
func looks(t *testing.T, url string, flags ...string) {
	t.Helper()
	fairlockWith(t, []string{"FAIRLOCK_REDIS=" + url}, append([]string{"ls"}, flags...)...).start().ends(0)
	fairlockWith(t, []string{"FAIRLOCK_REDIS=" + url}, append([]string{"show", "x"}, flags...)...).start().ends(1)
}

func TestAUserWithTheRightsThatTheDoctorAdvisesCannotReachOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	advised := findsAt(t, as(t, s, "mine", "~*", "+@all", "resetchannels"))["rights"].Do
	_, rules, _ := strings.Cut(advised, ">PASSWORD ")
	o, err := redis.ParseURL(as(t, s, "mine", strings.Fields(rules)...))
	must(t, err)
	rdb := redis.NewClient(o)
	defer rdb.Close()
	for _, command := range []string{
		"FUNCTION FLUSH", "SCRIPT FLUSH", "SCRIPT KILL", "SCAN 0", "RANDOMKEY", "KEYS *", "PUBSUB CHANNELS", "PSUBSCRIBE *",
		"FLUSHALL", "CONFIG GET *", "CLIENT KILL ID 1", "SET other 1", "PUBLISH other 1", "SWAPDB 0 1", "SELECT 1",
	} {
		var words []any
		for word := range strings.FieldsSeq(command) {
			words = append(words, word)
		}
		if err := rdb.Do(t.Context(), words...).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestTheDoctorSaysWhichRightsAreMissing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, test := range []struct {
		rules  string
		check  string
		status string
		says   []string
	}{
		{"~fairlock:* +@all resetchannels", "rights", wrong, []string{"publish, subscribe", "ACL SETUSER", "&fairlock:wake:*"}},
		{"~fairlock:* +@all resetchannels", "practice", wrong, []string{"NOPERM", "ACL SETUSER"}},
		{"~other:* +@all allchannels", "rights", wrong, []string{"eval", "~fairlock:*"}},
		{"~* +@all allchannels -hset", "practice", wrong, []string{"can't run this command", "ACL SETUSER"}},
		{"~* +@all allchannels -info -wait", "rights", note, []string{"info (", "wait (WithReplicas)", "+info"}},
		{"~* +@all allchannels -info", "version", note, []string{"not known: INFO: NOPERM", "+info"}},
		{"~* +@all &fairlock:wake:* &fairlock:freed:*", "rights", note, []string{"publish on fairlock:plain:wake:* (ls, show, web)", "&fairlock:plain:wake:*"}},
		{"~* +@all allchannels -scan", "keyspace", note, []string{"NOPERM", "+scan"}},
	} {
		checkFound(t, findsAt(t, as(t, s, "limited", strings.Fields(test.rules)...)), test.check, test.status, test.says...)
	}
}

func TestTheDoctorDisturbsNoLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	lease := take(t, locker, "x")
	waits(t, locker, "x", fairlock.Note("next"))
	finds(t, s)
	must(t, lease.Err())
	inLine(t, locker, "x", 1)
	channels, err := s.Client(t).PubSubChannels(t.Context(), "*").Result()
	must(t, err)
	if len(channels) != 1 { // only the waiter's channel
		t.Errorf("subscriptions: %q", channels)
	}
	eventually(t, "nobody but the test is connected", func() bool {
		list, err := s.Client(t).ClientList(t.Context()).Result()
		must(t, err)
		return !strings.Contains(list, "name=fairlock ")
	})
}

func TestDoctorMissesTheSlotsOfAClusterThatNobodyServes(t *testing.T) {
	t.Parallel()
	c := redistest.StartNodes(t, 3, time.Minute)
	url := "redis+cluster://" + c.Addrs()[0]
	checkFound(t, findsAt(t, url), "topology", good, "a cluster of 3 masters")
	owner := c.MasterOf("{x}")
	slot := owner.Client(t).ClusterKeySlot(t.Context(), "{x}").Val()
	eventually(t, "nobody has the slot", func() bool {
		gone := true
		for _, node := range append([]*redistest.Server{owner}, c.Nodes()...) {
			rdb := node.Client(t)
			_ = rdb.ClusterDelSlots(t.Context(), int(slot)).Err()   // the node may have done that already
			for _, r := range rdb.ClusterSlots(t.Context()).Val() { //nolint:staticcheck // what the doctor may ask, too
				gone = gone && (int(slot) < r.Start || int(slot) > r.End)
			}
		}
		return gone
	})
	checkFound(t, findsAt(t, url), "topology", wrong, "16383 of 16384 slots are served: locks in the others are refused", "--cluster fix")
}

func TestDoctorLooksAtEachMasterOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartNodes(t, 3, time.Minute) // no replica takes over before the doctor looks
	full := c.Masters()[2]
	direct, all := full.Client(t), c.Client(t)
	must(t, direct.ConfigSet(t.Context(), "maxmemory", "1gb").Err())
	must(t, direct.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	must(t, direct.Do(t.Context(), "acl", "setuser", "default", "-wait").Err())
	const odd = 20
	for i := range odd { // on all masters
		must(t, all.Set(t.Context(), fmt.Sprintf("fairlock:lock:{%d}", i), "somebody else's", 0).Err())
	}
	found := make(map[string][]finding)
	p := fairlockWith(t, nil, "doctor", "--json", "--redis", "redis+cluster://"+c.Addrs()[0]).start()
	for _, f := range findingsOf(t, p) {
		found[f.Check] = append(found[f.Check], f)
	}
	p.ends(exit.Broken)
	for _, f := range found["eviction"] {
		if want := f.Node == full.Addr(); (f.Status == wrong) != want {
			t.Errorf("%+v", f)
		}
	}
	for _, f := range found["rights"] {
		if want := f.Node == full.Addr(); (f.Status == note) != want {
			t.Errorf("%+v", f)
		}
	}
	for _, check := range []string{"version", "rights", "practice", "latency", "clock", "eviction", "persistence"} {
		if n := len(found[check]); n != 3 {
			t.Errorf("%s: %d masters", check, n)
		}
	}
	if f := found["keyspace"]; len(f) != 1 || f[0].Figures["odd"] != odd {
		t.Errorf("%+v", f)
	}

	full.Kill()
	p = fairlockWith(t, nil, "doctor", "--json", "--redis", "redis+cluster://"+c.Addrs()[0]).start()
	away := 0
	for _, f := range findingsOf(t, p) {
		if f.Node == full.Addr() {
			if away++; f.Check != "server" || f.Status != wrong {
				t.Errorf("%+v", f)
			}
		}
	}
	if away != 1 {
		t.Errorf("%d findings are about the one that is away", away)
	}
	p.ends(exit.Broken)
}

func TestDoctorTakesALockAtEachMasterOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartNodes(t, 3, time.Minute)
	odd := c.Masters()[1] // rights are not copied from node to node
	must(t, odd.Client(t).Do(t.Context(), "acl", "setuser", "default", "-hset").Err())
	p := fairlockWith(t, nil, "doctor", "--json", "--redis", "redis+cluster://"+c.Addrs()[0]).start()
	masters := make(map[string]string)
	for _, f := range findingsOf(t, p) {
		if f.Check == "practice" {
			masters[f.Node] = f.Status
		}
	}
	p.ends(exit.Broken)
	for _, m := range c.Masters() {
		if want := map[bool]string{true: wrong, false: good}[m == odd]; masters[m.Addr()] != want {
			t.Errorf("%s is %q, want %q", m.Addr(), masters[m.Addr()], want)
		}
	}
}
