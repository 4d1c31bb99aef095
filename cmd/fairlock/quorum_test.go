package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/redistest"
)

// trio is a quorum of three real servers.
type trio struct {
	*testing.T
	servers []*redistest.Server
	addrs   []string
}

// newTrio starts the servers. They know of no quorum yet.
func newTrio(t *testing.T) *trio {
	t.Helper()
	q := &trio{T: t}
	for range 3 {
		s := redistest.Start(t)
		q.servers, q.addrs = append(q.servers, s), append(q.addrs, s.Addr())
	}
	return q
}

// aTrio is a trio that grants.
func aTrio(t *testing.T) *trio {
	t.Helper()
	q := newTrio(t)
	must(t, q.locker().Init(t.Context()))
	return q
}

// url is what --redis takes.
func (q *trio) url() string { return "quorum:" + strings.Join(q.addrs, ",") }

// locker is the test's own Locker.
func (q *trio) locker(options ...quorum.Option) *quorum.Locker {
	var nodes []redis.UniversalClient
	for _, addr := range q.addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		q.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	l := quorum.New(nodes, options...)
	q.Cleanup(func() { _ = l.Close() })
	return l
}

// launch starts a fairlock on the quorum.
func (q *trio) launch(args ...string) *tool {
	q.Helper()
	return fairlockWith(q.T, []string{"FAIRLOCK_REDIS=" + q.url()}, args...).start()
}

// finished runs fairlock until it ends with the wanted exit code, and returns what it has printed.
// All its first requests to a node have 250 ms. If a node was later, on a busy machine, it runs
// again, unless it has changed what it was to change.
func (q *trio) finished(want int, args ...string) (p *tool, text string) {
	q.Helper()
	changes := slices.Contains([]string{"evict", "force", "run"}, args[0])
	eventually(q.T, "all nodes answer in time", func() bool {
		p = q.launch(args...)
		done := p.ended() == want && changes
		text = strings.Join(p.rest(), "\n")
		return done || !strings.Contains(text+p.stderr.String(), "no answer within")
	})
	p.ends(want)
	return p, text
}

// prints runs fairlock to its end and returns what it prints, with the nodes called A, B and C.
func (q *trio) prints(want int, args ...string) string {
	q.Helper()
	_, text := q.finished(want, args...)
	return q.named(text)
}

func (q *trio) named(text string) string {
	for i, addr := range q.addrs {
		text = strings.ReplaceAll(text, addr, string(rune('A'+i)))
	}
	return text
}

// waiting makes a call wait. The channel gets its result.
func (q *trio) waiting(l *quorum.Locker, name string, options ...quorum.LockOption) <-chan error {
	q.Helper()
	ctx, cancel := context.WithCancel(q.Context())
	q.Cleanup(cancel)
	queued, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		lease, err := l.Lock(ctx, name, append(options, quorum.OnQueued(func(int) { close(queued) }))...)
		ended <- err
		_ = lease.Unlock(context.Background()) // nil if err is not
	}()
	select {
	case <-queued:
	case <-time.After(patienceOfTests):
		q.Fatal("it does not wait")
	}
	return ended
}

// decided waits until all nodes know that the lock is decided.
func (q *trio) decided(l *quorum.Locker, name string) {
	q.Helper()
	eventually(q.T, "all nodes know of the decision", func() bool {
		state, err := l.Inspect(q.Context(), name)
		return err == nil && !slices.ContainsFunc(state.Nodes, func(n quorum.NodeView) bool { return !n.Decided })
	})
}

func TestRunStandsInTheLineOfAQuorumAndOutlivesOneOfItsNodes(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	first := q.launch("run", "nightly", "--", "sh", "-c", "echo $FAIRLOCK_TOKEN; read line")
	token := first.line()
	second := q.launch("run", "--verbose", "nightly", "--", "sh", "-c", "echo $FAIRLOCK_TOKEN; exit 3")
	l := q.locker()
	eventually(t, "one waits", func() bool {
		state, err := l.Inspect(t.Context(), "nightly")
		return err == nil && state.Waiting == 1
	})
	q.servers[0].Kill()
	_, err := first.stdin.Write([]byte("\n"))
	must(t, err)
	if later := second.line(); later <= token {
		t.Errorf("token %s after %s", later, token)
	}
	first.ends(0)
	second.ends(3)
	q.finished(0, "run", "--wait", "0", "nightly", "--", "true")
}

func TestRunAsksForNoLongerLeaseThanTheQuorumAllows(t *testing.T) {
	t.Parallel()
	q := newTrio(t)
	must(t, q.locker(quorum.WithLongestLease(20*time.Second), quorum.WithLease(time.Second)).Init(t.Context()))
	q.launch("run", "--longest-lease", "20s", "x", "--", "true").ends(0)
}

func TestRunEndsItsCommandWhenTheMajorityIsGone(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	p := q.launch("run", "--lease", "3s", "nightly", "--", "sh", "-c", "echo in; exec sleep 600")
	p.says("in")
	q.servers[0].Kill()
	q.servers[2].Kill()
	p.ends(exit.Lost)
	p.complainsTwice("nightly", "lost")
	p = q.launch("run", "nightly", "--", "true")
	p.ends(exit.Unavailable)
	if text := p.stderr.String(); !strings.Contains(text, "1 of 3 nodes answered") {
		t.Error(text)
	}
}

func TestWhatAQuorumCannotDoIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	q := &trio{T: t, addrs: []string{"a", "b", "c"}} // nothing is asked
	for line, why := range map[string]string{
		"watch x":                   "watch is not for a quorum: what a node tells is of its vote",
		"web":                       "web is not for a quorum: ",
		"ls --plain":                "--plain is not for a quorum: its nodes hand over by their lines",
		"show --plain x":            "--plain is not for a quorum: ",
		"force --plain x":           "--plain is not for a quorum: ",
		"top --plain":               "--plain is not for a quorum: ",
		"doctor --plain":            "--plain is not for a quorum: ",
		"ls --redisson":             "--redisson is not for a quorum: Redisson keeps its locks on one server",
		"run --plain x -- true":     "--plain is not for a quorum: ",
		"run --owner me x -- true":  "--owner is not for a quorum: a second process could have another token",
		"run --lease 2m x -- true":  "a lease of 2m0s is longer than the longest of this quorum, 1m0s",
		"demo --redis quorum:a,b,c": "this command needs one server",
		"ls --redis quorum:a,b":     "2 nodes: a quorum has an odd number of them",
		"ls --redis a --redis b":    "2 nodes: a quorum has an odd number of them",
		"ls --redis quorum:a,b,a":   "nodes 1 and 3 are one server",

		"ls --redis quorum:a,b,redis+cluster://c": "a node of a quorum is one master by itself",
		"ls --redis redis://a --set x":            "--longest-lease and --set are of use with a quorum only",
		"ls --longest-lease 1h1us":                "WithLongestLease: 1h0m0.000001s",
		"quorum init --redis redis://a":           "quorum init wants a quorum",
		"doctor --redis quorum:a,b,a":             "nodes 1 and 3 are one server",
	} {
		p := q.launch(strings.Fields(line)...)
		p.ends(exit.Usage)
		if text := p.stderr.String(); !strings.Contains(text, why) {
			t.Errorf("%s: %s, want %q", line, text, why)
		}
	}
}

func TestWhatStandsInTheEnvironmentIsNamedWhereItIsRefused(t *testing.T) {
	t.Parallel()
	for line, env := range map[string]string{
		"ls --redis redis://a":    "FAIRLOCK_SET=mine",
		"show --redis a x":        "FAIRLOCK_LONGEST_LEASE=2m",
		"ls --redis a --redisson": "FAIRLOCK_PREFIX=mine",
	} {
		p := fairlockWith(t, []string{env}, strings.Fields(line)...).start()
		p.ends(exit.Usage)
		name, _, _ := strings.Cut(env, "=")
		p.complains("(the environment has " + name + ")")
	}
}

func TestLsShowAndTopTellOfAQuorum(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	l := q.locker()
	take(t, l, "nightly", fairlock.Note("build-7"))
	take(t, l, "order:42", fairlock.Note("web-1"))
	q.waiting(l, "nightly", fairlock.Note("build-8"))
	q.decided(l, "nightly")
	checkText(t, "ls", q.prints(0, "ls"), `
NAME  KIND  HOLDER  HELD  REMAINING  WAITING
nightly  quorum  build-7  AGE  AGE  1
order:42  quorum  web-1  AGE  AGE  0`)
	checkText(t, "ls order*", q.prints(0, "ls", "order*", "--json"),
		`{"name":"order:42","kind":"quorum","token":TOKEN,"holder":{"owner":"ID","note":"web-1","token":TOKEN,"holds":1,"depth":1,"since":"TIME","held_ms":MS,"remaining_ms":MS},"waiting":0}`)
	checkText(t, "show", q.prints(0, "show", "nightly"), `
nightly  quorum lock
  held by  build-7
  owner  ID
  token  TOKEN
  held for  AGE, since TIME
  remaining  AGE if nobody renews it
  depth  1, in 1 hold
  waiting  1

PLACE  WAITED  WHO  ID
1  AGE  build-8  ID

NODE  VOTE  DECIDED  REMAINING  TOKEN  WAITING
A  build-7  yes  AGE  TOKEN  1
B  build-7  yes  AGE  TOKEN  1
C  build-7  yes  AGE  TOKEN  1`)
	text := q.prints(0, "top", "--once")
	if !strings.Contains(text, "build-7") || !strings.Contains(text, "2 locks, 2 held, 1 waiting") {
		t.Errorf("top: %s", text)
	}
}

func TestShowSaysWhyANodeHasNoSay(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	must(t, q.servers[1].Client(t).HSet(t.Context(), "quorum:node", "from", time.Now().Add(90*time.Minute).UnixMilli()).Err())
	l := q.locker()
	q.servers[2].Kill()
	text := q.prints(exit.Nothing, "show", "nightly")
	for _, like := range []string{`(?m)^A +- +- +- +- +0$`, `(?m)^B +none yet +-`, `(?m)^C +no say +-`, `(?m)^B grants nothing for 1m`, `(?m)^C has no say: .*refused`} {
		if !regexp.MustCompile(like).MatchString(text) {
			t.Errorf("%q is not in\n%s", like, text)
		}
	}
	q.waiting(l, "nightly", fairlock.Note("build-8"))
	var r locks.Record
	must(t, json.Unmarshal([]byte(q.prints(0, "show", "nightly", "--json")), &r))
	if len(r.Nodes) != 3 || r.Kind != locks.Quorum || r.Holder != nil || r.Waiting != 1 {
		t.Fatalf("%+v", r)
	}
	if a, b, c := r.Nodes[0], r.Nodes[1], r.Nodes[2]; a.Vote == nil || a.Vote.Note != "build-8" || a.Decided || a.Waiting != 0 || a.Token == 0 ||
		b.Vote != nil || b.Quarantine < 30_000 || b.Waiting != 1 || c.Error == "" || c.Vote != nil {
		t.Errorf("%+v", r.Nodes)
	}
}

func TestANodeOfAnotherQuorumSaysSoAndTheOthersShowTheLock(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	l := q.locker()
	take(t, l, "nightly", fairlock.Note("build-7"))
	q.decided(l, "nightly")
	must(t, q.servers[1].Client(t).HSet(t.Context(), "quorum:node", "set", "theirs").Err())
	text := q.prints(0, "show", "nightly")
	for _, like := range []string{`held by +build-7`, `(?m)^A +build-7 +yes`, `(?m)^B has no say: the server is not that node of this quorum: it is of theirs`, `(?m)^C +build-7 +yes`} {
		if !regexp.MustCompile(like).MatchString(text) {
			t.Errorf("%q is not in\n%s", like, text)
		}
	}
	for _, args := range [][]string{{"ls"}, {"top", "--once"}} {
		if text := q.prints(0, args...); !strings.Contains(text, "build-7") {
			t.Errorf("%q: %s", args, text)
		}
	}
	must(t, q.servers[2].Client(t).HSet(t.Context(), "quorum:node", "set", "theirs").Err())
	p, _ := q.finished(exit.Unavailable, "show", "nightly")
	p.complains("node 2", "node 3", "not that node of this quorum", "1 of 3 nodes")
}

func TestLookingAtNodesThatKnowNoQuorumWritesNothing(t *testing.T) {
	t.Parallel()
	q := newTrio(t)
	if text := q.prints(exit.Nothing, "show", "x"); strings.Count(text, "grants nothing for 1m") != 3 {
		t.Error(text)
	}
	q.prints(0, "ls")
	q.prints(0, "top", "--once")
	q.prints(exit.Nothing, "quorum", "init")
	(&completeCommand{Shell: "fish", Words: []string{"--", "show", "--redis=" + q.url(), ""}}).lines()
	for i, s := range q.servers {
		if keys := s.Client(t).Keys(t.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("looking has written %q at node %d", keys, i+1)
		}
	}
}

func TestAHoldThatNoNodeKnowsToBeDecidedIsShownWithoutAToken(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	l := q.locker(quorum.WithLease(time.Minute)) // a renewal would say that it is decided
	lease := take(t, l, "nightly", fairlock.Note("build-7"))
	q.decided(l, "nightly")
	for _, s := range q.servers { // as in the first second
		must(t, s.Client(t).HDel(t.Context(), "quorum:lock:{nightly}", "decided").Err())
	}
	if text := q.prints(0, "show", "nightly"); !strings.Contains(text, "token      not known yet: the call is not decided") {
		t.Error(text)
	}
	var r locks.Record
	must(t, json.Unmarshal([]byte(q.prints(0, "show", "nightly", "--json")), &r))
	if h := r.Holder; h == nil || !h.Undecided || h.Token != 0 || r.Nodes[0].Vote == nil || r.Nodes[0].Vote.Token != lease.Token() {
		t.Errorf("%+v", r)
	}
	p := q.launch("force", "nightly", "--token", "1")
	p.ends(exit.Nothing)
	p.complains("not held with token 1 any more, but by build-7 (token not known yet")
	q.prints(0, "force", "nightly", "--token", fmt.Sprint(lease.Token()))
}

func TestForceAndEvictWorkOnAQuorumOfWhichANodeIsDown(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	l, other := q.locker(), q.locker()
	lease := take(t, l, "x", fairlock.Note("first"))
	q.decided(l, "x")
	evicted, next := q.waiting(other, "x", fairlock.Note("second")), q.waiting(other, "x", fairlock.Note("third"))
	q.servers[1].Kill()
	var state *quorum.State
	eventually(t, "both are shown in their order", func() bool {
		var err error
		state, err = l.Inspect(t.Context(), "x")
		return err == nil && len(state.Waiters) == 2 && state.Waiters[0].Note == "second"
	})
	checkText(t, "evict", q.prints(0, "evict", "x", state.Waiters[0].ID), "x: evicted second, who had place 1 and waited for AGE")
	if err := <-evicted; !strings.Contains(fmt.Sprint(err), "evicted") {
		t.Error(err)
	}
	text := q.prints(0, "force", "x", "--token", fmt.Sprint(lease.Token()))
	if !strings.Contains(text, "ended the ownership of first") {
		t.Error(text)
	}
	must(t, <-next)
	<-lease.Done()
	q.prints(exit.Nothing, "force", "x")
	q.prints(exit.Nothing, "evict", "x", state.Waiters[0].ID)
}

func TestCompletionAsksAQuorum(t *testing.T) {
	t.Parallel()
	q := aTrio(t)
	take(t, q.locker(), "order:42", fairlock.Note("web-1"))
	got := offered(1, "fish", "--", "show", "--redis="+q.url(), "ord")
	if !slices.Equal(got, []string{"order:42\tquorum, held by web-1, 0 waiting"}) {
		t.Errorf("%q", got)
	}
}
