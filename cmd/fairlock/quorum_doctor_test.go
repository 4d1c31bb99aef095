package main

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/redistest"
)

// nodeFinding is a finding of the doctor about one node, or about all of them.
type nodeFinding struct {
	finding
	Node string
}

// findings runs the doctor on the quorum, and finds the exit code that the findings ask for.
func (q *trio) findings(flags ...string) (all []nodeFinding) {
	q.Helper()
	return q.findingsAt(q.url(), flags...)
}

func (q *trio) findingsAt(url string, flags ...string) (all []nodeFinding) {
	q.Helper()
	p := fairlockWith(q.T, nil, slices.Concat([]string{"doctor", "--json", "--redis", url}, flags)...).start()
	code, answering := 0, 0
	for _, line := range p.rest() {
		var f nodeFinding
		must(q.T, json.Unmarshal([]byte(line), &f))
		f.Node, f.Found, f.Do = q.named(f.Node), q.named(f.Found), q.named(f.Do)
		if f.Status != good && f.Do == "" {
			q.Errorf("%s: %s, and nothing to do about it: %s", f.Check, f.Status, f.Found)
		}
		if f.Status == wrong {
			code = exit.Broken
		}
		if f.Check == "server" && f.Status == good {
			answering++
		}
		all = append(all, f)
	}
	if answering < 2 {
		code = exit.Unavailable
	}
	p.ends(code)
	return all
}

// checkNode checks what was found of a node, or of all ("").
func (q *trio) checkNode(all []nodeFinding, node, check, want string, says ...string) {
	q.Helper()
	i := slices.IndexFunc(all, func(f nodeFinding) bool { return f.Node == node && f.Check == check })
	if i < 0 {
		q.Errorf("nothing is said of %s of %q", check, node)
		return
	}
	for _, part := range says {
		if f := all[i]; f.Status != want || !strings.Contains(f.Found+" -> "+f.Do, part) {
			q.Errorf("%s: %+v, want %s and %q", check, f, want, part)
		}
	}
}

func TestTheDoctorPractisesWithLeasesThatTheQuorumAllows(t *testing.T) {
	t.Parallel()
	q := newTrio(t)
	q.prints(0, "quorum", "init", "--new", "--longest-lease", "5s")
	q.checkNode(q.findings("--longest-lease", "5s"), "", "practice", good, "handed over")
}

func TestTheDoctorFindsNothingWrongWithAGoodQuorum(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	take(t, q.locker(), "x", fairlock.Note("somebody"))
	text := q.named(q.launch("doctor").diagnosis())
	text = regexp.MustCompile(`(?m)^ok     (clock|keyspace) .*\n`).ReplaceAllString(text, "")
	want := `
ok     server       A, B, C: answers
ok     distinct     the nodes are 3 servers: their run ids differ
ok     member       A, B, C: belongs to this quorum, whose longest lease is 1m0s
ok     majority     all 3 nodes can grant, and 2 are a majority
ok     version      A, B, C: Redis V
ok     topology     A, B, C: a master by itself
ok     rights       A, B, C: default may do all that is needed
ok     practice     a lock was taken, waited for, handed over in N ms, and forced
ok     eviction     A, B, C: maxmemory-policy noeviction, no limit
ok     persistence  A, B, C: whatever it keeps, after a restart the node grants nothing for the longest lease
ok     skew         the clocks of the nodes are N ms apart

N ok, 0 notes, 0 wrong`
	if text != strings.TrimSpace(want) {
		t.Errorf("%s\nwant%s", text, want)
	}
	if all := q.findings(); !slices.ContainsFunc(all, func(f nodeFinding) bool { return f.Check == "keyspace" && f.Node == "C" && f.Figures["locks"] >= 1 }) {
		t.Errorf("the lock is not found: %+v", all)
	}
}

func TestTheDoctorTellsANodeThatIsDownFromOneThatForgotAndOneOfAnotherQuorum(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	a, b := q.servers[0].Client(t), q.servers[1].Client(t)
	q.servers[2].Kill()
	all := q.findings()
	q.checkNode(all, "C", "server", wrong, "connection refused", "start the server")
	q.checkNode(all, "", "majority", note, "2 of 3 nodes can grant", "the loss of 0 more")
	q.checkNode(all, "", "distinct", note, "2 of 3 nodes")
	q.checkNode(all, "", "practice", good, "handed over")

	must(t, b.HSet(t.Context(), "quorum:node", "from", time.Now().Add(50*time.Second).UnixMilli()).Err())
	all = q.findings()
	q.checkNode(all, "B", "member", note, "grants nothing for", "wait")
	q.checkNode(all, "", "majority", wrong, "1 of 3 nodes can grant, and a majority is 2", "see server and member")
	q.checkNode(all, "", "practice", note, "no lock was tried", "when a majority can grant")

	q.servers[2].Restart()
	must(t, a.HSet(t.Context(), "quorum:node", "set", "node 1 of 3 nodes: theirs").Err())
	before := b.DBSize(t.Context()).Val()
	all = q.findings()
	q.checkNode(all, "A", "member", wrong, "it is of 3 nodes: theirs", "--longest-lease and --set", "quorum init")
	q.checkNode(all, "C", "member", note, "knows of no quorum yet", "it joins by itself")
	q.checkNode(all, "", "practice", note, "no lock was tried")
	if keys := q.servers[2].Client(t).Keys(t.Context(), "*").Val(); len(keys) > 0 || b.DBSize(t.Context()).Val() != before {
		t.Errorf("looking at what is wrong has written %q", keys)
	}
	q.checkNode(q.findings("--set", "theirs"), "A", "member", good, "belongs to this quorum")
	q.checkNode(q.findings("--longest-lease", "2m"), "B", "member", wrong, "with leases of up to 1m0s")

	q.servers[0].Kill()
	q.servers[1].Kill()
	all = q.findings()
	q.checkNode(all, "", "majority", wrong, "0 of 3")
	q.checkNode(all, "", "skew", note, "fewer than two")
}

func TestTheDoctorTellsNobodyThatAQuorumIsNewWhereANodeKeepsAnothersNumber(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	c := q.servers[2].Client(t)
	its := c.HGet(t.Context(), "quorum:node", "set").Val()
	_, set, _ := strings.Cut(its, " of ")
	another := "node 1 of " + set
	if another == its {
		another = "node 2 of " + set
	}
	must(t, c.HSet(t.Context(), "quorum:node", "set", another).Err())
	q.checkNode(q.findings(), "C", "member", wrong, "its number is", "never quorum init")
}

func TestTheDoctorFindsOneServerUnderTwoNames(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	other := strings.Replace(q.addrs[0], "127.0.0.1", "localhost", 1)
	all := q.findingsAt("quorum:" + q.addrs[0] + "," + q.addrs[1] + "," + other)
	q.checkNode(all, "", "distinct", wrong, "A and "+other+" are one server", "it has one vote")
	q.checkNode(all, "", "practice", note, "no lock was tried: see member")
	q.checkNode(all, other, "member", wrong, "and not of 3 nodes")
	p := fairlockWith(t, nil, "quorum", "init", "--new", "--anyway", "--redis", "quorum:"+q.addrs[0]+","+q.addrs[1]+","+other).start()
	p.ends(exit.Usage)
	p.complains("are one server")
	p = fairlockWith(t, nil, "run", "--redis", q.addrs[0], "--redis", q.addrs[1], "--redis", other, "--set", "three", "x", "--", "true").start()
	p.ends(exit.Unavailable)
}

func TestTheDoctorLooksAtEachNodeAsAtAServer(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	rdb := q.servers[1].Client(t)
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	must(t, rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	must(t, rdb.Set(t.Context(), "quorum:lock:{x}", "somebody else's", 0).Err())
	must(t, rdb.Set(t.Context(), "quorum:cache", "", 0).Err())
	all := q.findings()
	q.checkNode(all, "A", "eviction", good, "noeviction")
	q.checkNode(all, "B", "eviction", wrong, "allkeys-lru", "noeviction")
	q.checkNode(all, "B", "keyspace", wrong, `"quorum:lock:{x}" (string instead of hash)`, `"quorum:cache"`)
	redistest.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(q.servers[0].Port()))
	a := q.servers[0].Client(t)
	eventually(t, "it has a replica", func() bool {
		return strings.Contains(a.Info(t.Context(), "replication").Val(), "connected_slaves:1")
	})
	q.checkNode(q.findings(), "A", "topology", note, "1 replica", "let nothing promote them")
	must(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	q.checkNode(q.findings(), "B", "topology", wrong, "a replica of 127.0.0.1:1")
}

func TestTheDoctorSaysWhatAUserOfAQuorumMustBeAllowed(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	users := func(rules ...string) string {
		var all []string
		for _, s := range q.servers {
			all = append(all, as(t, s, "limited", rules...))
		}
		return "quorum:" + strings.Join(all, ",")
	}
	all := q.findingsAt(users("~*", "+@all", "allchannels", "-info"))
	q.checkNode(all, "A", "rights", wrong, "refused what locks need: info", "ACL SETUSER", "~quorum:*")
	q.checkNode(all, "A", "member", wrong, "+info")
	_, rules, _ := strings.Cut(all[slices.IndexFunc(all, func(f nodeFinding) bool { return f.Check == "rights" })].Do, ">PASSWORD ")
	all = q.findingsAt(users(strings.Fields(rules)...))
	q.checkNode(all, "", "practice", good)
	q.checkNode(all, "A", "rights", note, "is refused scan (ls)", " +scan")
	for _, f := range q.findingsAt(users(append(strings.Fields(rules), "+dbsize", "+scan", "+type")...)) {
		if f.Check != "latency" && f.Status != good { // that may be anything on a busy machine
			t.Errorf("with %q: %+v", rules, f)
		}
	}
}

func TestANewQuorumIsToldSoOnlyIfItsUserSaysSo(t *testing.T) {
	t.Parallel()
	q := newTrio(t)
	text := q.prints(exit.Nothing, "quorum", "init")
	if strings.Count(text, "knows of no quorum") != 3 || strings.Count(text, "as before") != 3 {
		t.Error(text)
	}
	for _, s := range q.servers {
		if n := s.Client(t).DBSize(t.Context()).Val(); n > 0 {
			t.Errorf("looking has written %d keys", n)
		}
	}
	q.checkNode(q.findings(), "", "practice", note, "no lock was tried", "fairlock quorum init")
	text = q.prints(0, "quorum", "init", "--new", "--longest-lease", "2m")
	if strings.Count(text, "  grants") != 3 {
		t.Error(text)
	}
	q.finished(0, "run", "--wait", "0", "--longest-lease", "2m", "--lease", "2m", "x", "--", "true") // at once
	q.launch("run", "x", "--", "true").ends(exit.Unavailable)
	if text := q.prints(0, "quorum", "init", "--new", "--longest-lease", "2m"); !strings.Contains(text, "nothing to tell") {
		t.Error(text)
	}
}

func TestANodeThatRefusesIsNotSaidToBeAway(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	must(t, q.servers[1].Client(t).Do(t.Context(), "acl", "setuser", "default", "-scan").Err())
	text := q.prints(exit.Unavailable, "quorum", "init")
	if strings.Count(text, "  refuses") != 1 || strings.Contains(text, "away") {
		t.Error(text)
	}
}

func TestNobodyIsToldThatAQuorumIsNewIfThereIsAReasonAgainstIt(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	refused := func(code int, why string, args ...string) {
		t.Helper()
		p := q.launch(append([]string{"quorum", "init", "--new"}, args...)...)
		p.ends(code)
		p.complains("nothing was changed", why)
	}
	refused(exit.Nothing, "not that node of this quorum", "--longest-lease", "2m")
	lease := take(t, q.locker(), "x")
	must(t, q.servers[0].Client(t).HSet(t.Context(), "quorum:node", "from", time.Now().Add(90*time.Minute).UnixMilli()).Err())
	refused(exit.Nothing, "the quorum is in use")
	refused(exit.Nothing, "has 1 lock")
	q.servers[2].Kill()
	refused(exit.Unavailable, "connection refused", "--anyway")
	q.servers[2].Restart()
	must(t, lease.Err())

	p := q.launch("quorum", "init", "--new", "--anyway", "--longest-lease", "2m", "--json")
	p.ends(0)
	for _, line := range p.rest() {
		var n struct {
			Run  string
			Told bool
		}
		must(t, json.Unmarshal([]byte(line), &n))
		if !n.Told || n.Run == "" {
			t.Errorf("%s", line)
		}
	}
	q.checkNode(q.findings("--longest-lease", "2m"), "", "majority", good, "all 3 nodes can grant")
}

func TestTheDoctorSaysOfAQuarantineThatHasNotBegunWhatBeginsIt(t *testing.T) {
	t.Parallel()
	for _, longest := range []time.Duration{5 * time.Second, time.Minute} {
		q := newTrio(t)
		flags := []string{"--longest-lease", longest.String()}
		q.prints(0, append([]string{"quorum", "init", "--new"}, flags...)...)
		for _, s := range q.servers { // as after a power cut
			must(t, s.Client(t).HSet(t.Context(), "quorum:node", "run", "before").Err())
		}
		q.checkNode(q.findings(flags...), "B", "member", note, "may have forgotten", "it begins with the first request for a lock: start its users")
		l := q.locker(quorum.WithLongestLease(longest), quorum.WithLease(time.Second))
		var err error
		eventually(t, "a majority of the nodes answers in time", func() bool {
			_, err = l.TryLock(t.Context(), "x")
			return !errors.Is(err, quorum.ErrUnreachable)
		})
		if !errors.Is(err, quorum.ErrHeld) {
			t.Fatal(err)
		}
		eventually(t, "it has begun", func() bool {
			return q.servers[1].Client(t).HGet(t.Context(), "quorum:node", "run").Val() != "before"
		})
		q.checkNode(q.findings(flags...), "B", "member", note, "may have forgotten", "wait; and do not restart another node")
	}
}

func TestTheDoctorTakesAQuorumOfWhichANodeWasReplacedForNoNewOne(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	must(t, q.servers[2].Client(t).FlushAll(t.Context()).Err())
	all := q.findings()
	q.checkNode(all, "C", "member", note, "knows of no quorum yet", "it joins by itself")
	q.checkNode(all, "", "practice", note, "no lock was tried", "use the quorum: it joins by itself")
	if i := slices.IndexFunc(all, func(f nodeFinding) bool { return strings.Contains(f.Do, "quorum init") }); i >= 0 {
		t.Errorf("this quorum is not new: %+v", all[i])
	}
}
