package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// prints runs fairlock to its end and returns its standard output.
func prints(t *testing.T, s *redistest.Server, want int, args ...string) string {
	t.Helper()
	p := launch(t, s, args...)
	p.ends(want)
	if text := p.stderr.String(); want == 0 && text != "" {
		t.Errorf("%q: stderr: %s", args, text)
	}
	return strings.Join(p.rest(), "\n")
}

// objects returns the objects that fairlock prints with --json, one per line.
func objects[T any](t *testing.T, s *redistest.Server, want int, args ...string) (all []T) {
	t.Helper()
	for line := range strings.Lines(prints(t, s, want, append(args, "--json")...)) {
		var o T
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&o); err != nil {
			t.Errorf("%q: %v in %s", args, err, line)
		}
		all = append(all, o)
	}
	return all
}

// swap replaces what is like the regular expression.
type swap struct{ like, by string }

// varying differs from run to run, and so do the widths of columns.
var varying = []swap{
	{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\+:\d+`, "ID"},
	{`\b1\d{15}\b`, "TOKEN"},
	{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "TIME"},
	{`  +`, "  "},
}

func replaced(text string, swaps []swap) string {
	for _, s := range swaps {
		text = regexp.MustCompile(s.like).ReplaceAllString(text, s.by)
	}
	return text
}

// plainly replaces what differs from run to run. An age of an hour or more does not differ.
func plainly(text string) string {
	return replaced(text, append([]swap{
		{`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`, `"TIME"`},
		{`_ms":[1-9]\d*`, `_ms":MS`},
		{`\b\d+(\.\d+)?(ms|s)\b`, "AGE"},
	}, varying...))
}

func checkText(t *testing.T, what, got, want string) {
	t.Helper()
	if got, want = plainly(got), strings.TrimSpace(want); got != want {
		t.Errorf("%s says\n%s\nwant\n%s", what, got, want)
	}
}

// waits makes a call wait for a lock. The channel gets the result of the call.
func waits(t *testing.T, locker *fairlock.Locker, name string, options ...fairlock.LockOption) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	before := inspect(t, locker, name).Waiting
	ended := make(chan error, 1)
	go func() {
		_, err := locker.Lock(ctx, name, options...)
		ended <- err
	}()
	eventually(t, "it waits", func() bool { return inspect(t, locker, name).Waiting == before+1 })
	t.Cleanup(cancel)
	return ended
}

// take holds a lock until the end of the test.
func take(t *testing.T, locker fairlock.Interface, name string, options ...fairlock.LockOption) *fairlock.Lease {
	t.Helper()
	lease, err := locker.Lock(t.Context(), name, options...)
	must(t, err)
	t.Cleanup(func() { _ = lease.Unlock(context.Background()) }) // the test may have lost the lease
	return lease
}

// plainLocker returns a Locker whose holds hear of a force within a second, at their next renewal,
// and are renewed in time on a busy machine.
func plainLocker(t *testing.T, rdb redis.UniversalClient) *reentrant.Locker {
	t.Helper()
	locker := reentrant.New(rdb, reentrant.WithLease(3*time.Second), reentrant.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

// busyServer returns a server with a few locks. All commands that only look share it.
func busyServer(t *testing.T) *redistest.Server {
	t.Helper()
	s := redistest.Start(t)
	locker := observer(t, s)
	take(t, locker, "order:42", fairlock.Note("web-1"))
	take(t, locker, "nightly", fairlock.Note("build-7:4242 backup.sh"))
	waits(t, locker, "nightly", fairlock.Note("build-8:11 backup.sh"))
	waits(t, locker, "nightly", fairlock.WithOwner("saga-7"))
	waits(t, locker, "nightly", fairlock.WithOwner("saga-8"), fairlock.Note("step 2"))
	take(t, plainLocker(t, s.Client(t)), "cache {eu}/a b", fairlock.WithOwner("refresher"))
	return s
}

func TestLsAndShowTellEverythingThatIsKnown(t *testing.T) {
	t.Parallel()
	s := busyServer(t)
	for _, test := range []struct{ args, want string }{
		{"ls", `
NAME  KIND  HOLDER  HELD  REMAINING  WAITING
nightly  fair  build-7:4242 backup.sh  AGE  AGE  3
order:42  fair  web-1  AGE  AGE  0
cache {eu}/a b  plain  refresher  AGE  AGE  -`},
		{"ls,--json", `
{"name":"nightly","kind":"fair","token":TOKEN,"holder":{"owner":"ID","note":"build-7:4242 backup.sh","token":TOKEN,"holds":1,"depth":1,"since":"TIME","held_ms":MS,"remaining_ms":MS},"waiting":3}
{"name":"order:42","kind":"fair","token":TOKEN,"holder":{"owner":"ID","note":"web-1","token":TOKEN,"holds":1,"depth":1,"since":"TIME","held_ms":MS,"remaining_ms":MS},"waiting":0}
{"name":"cache {eu}/a b","kind":"plain","token":TOKEN,"holder":{"owner":"refresher","note":"","token":TOKEN,"holds":1,"depth":1,"since":"TIME","held_ms":MS,"remaining_ms":MS},"waiting":0}`},
		{"ls,no*", `no locks`},
		{"ls,--json,no*", ``},
		{"show,nightly", `
nightly  fair lock
  held by  build-7:4242 backup.sh
  owner  ID
  token  TOKEN
  held for  AGE, since TIME
  remaining  AGE if nobody renews it
  depth  1, in 1 hold
  waiting  3

PLACE  WAITED  WHO  ID
1  AGE  build-8:11 backup.sh  ID
2  AGE  saga-7  ID
3  AGE  saga-8 (step 2)  ID`},
		{"show,nightly,--json", `
{"name":"nightly","kind":"fair","token":TOKEN,"holder":{"owner":"ID","note":"build-7:4242 backup.sh","token":TOKEN,"holds":1,"depth":1,"since":"TIME","held_ms":MS,"remaining_ms":MS},"waiting":3,"waiters":[` +
			`{"place":1,"id":"ID","owner":"ID","note":"build-8:11 backup.sh","since":"TIME","waited_ms":MS},` +
			`{"place":2,"id":"ID","owner":"saga-7","note":"","since":"TIME","waited_ms":MS},` +
			`{"place":3,"id":"ID","owner":"saga-8","note":"step 2","since":"TIME","waited_ms":MS}]}`},
		{"show,cache {eu}/a b", `
cache {eu}/a b  plain lock
  held by  refresher
  owner  refresher
  token  TOKEN
  held for  AGE, since TIME
  remaining  AGE if nobody renews it
  depth  1, in 1 hold`},
	} {
		checkText(t, test.args, prints(t, s, 0, strings.Split(test.args, ",")...), test.want)
	}
	checkText(t, "show other", prints(t, s, 1, "show", "other"), "other: nobody holds it and nobody waits for it")
	checkText(t, "show other --json", prints(t, s, 1, "show", "other", "--json"), `{"name":"other","kind":"fair","token":0,"holder":null,"waiting":0}`)
}

func TestLsShowsALockOfWhichAKeyHasAnotherTypeAsDamaged(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, observer(t, s), "x")
	must(t, s.Client(t).Set(t.Context(), "fairlock:queue:{x}", "theirs", 0).Err())
	must(t, s.Client(t).Set(t.Context(), "fairlock:lock:{theirs}", "theirs", 0).Err())
	checkText(t, "ls", prints(t, s, 0, "ls"), "NAME  KIND  HOLDER  HELD  REMAINING  WAITING\nx  fair  - (damaged)  -  -  0")
}

// named returns the names in the order in which ls shows them.
func named(t *testing.T, s *redistest.Server, args ...string) string {
	t.Helper()
	var all []string
	for _, r := range objects[locks.Record](t, s, 0, append([]string{"ls"}, args...)...) {
		all = append(all, r.Name)
	}
	return strings.Join(all, " ")
}

func TestLsShowsTheMostTroubledFirstUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	take(t, locker, "b/old", fairlock.LeaseFor(time.Hour))
	eventually(t, "it is older", func() bool { return inspect(t, locker, "b/old").Holder.Held > 5*time.Millisecond })
	take(t, locker, "c:busy", fairlock.LeaseFor(2*time.Hour))
	eventually(t, "it is older", func() bool { return inspect(t, locker, "c:busy").Holder.Held > 5*time.Millisecond })
	take(t, locker, "a/new", fairlock.LeaseFor(3*time.Hour))
	waits(t, locker, "c:busy")
	take(t, plainLocker(t, s.Client(t)), "d", fairlock.LeaseFor(time.Minute))
	for args, want := range map[string]string{
		"":                 "c:busy b/old a/new d",
		"--sort held":      "b/old c:busy a/new d",
		"--sort remaining": "d b/old c:busy a/new",
		"--sort name":      "a/new b/old c:busy d",
		"--plain":          "d",
		"--prefix other":   "",
		"*":                "c:busy b/old a/new d",
		"*/*":              "b/old a/new",
		"[ac]*":            "c:busy a/new",
		"c:bus?":           "c:busy",
		"c:bus":            "",
	} {
		if got := named(t, s, strings.Fields(args)...); got != want {
			t.Errorf("ls %s shows %q, want %q", args, got, want)
		}
	}
	launch(t, s, "ls", "[").ends(64)
	launch(t, s, "ls", "--sort", "size").ends(64)
}

func TestWhatOthersCallThemselvesDoesNothingToATerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, observer(t, s), "a\x1b[2J", fairlock.Note("b\nc\x1b]0;title\a"), fairlock.WithOwner("\x9b1m"))
	for _, args := range [][]string{{"ls"}, {"show", "a\x1b[2J"}, {"force", "a\x1b[2J"}} {
		text := prints(t, s, 0, args...)
		if strings.ContainsAny(text, "\x1b\a") || !utf8.ValidString(text) || !strings.Contains(text, `"a\x1b[2J"`) || !strings.Contains(text, `"b\nc\x1b]0;title\a"`) {
			t.Errorf("%q prints %q", args, text)
		}
	}
}

func TestShowShowsTheBeginningOfALongLineToPeople(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	take(t, locker, "x")
	for range 22 {
		waits(t, locker, "x", fairlock.Note("somebody"))
	}
	if text := prints(t, s, 0, "show", "x"); strings.Count(text, "somebody") != 20 || !strings.Contains(text, "and 2 more") {
		t.Errorf("show: %s", text)
	}
	if text := prints(t, s, 0, "show", "--all", "x"); strings.Count(text, "somebody") != 22 {
		t.Errorf("show --all: %s", text)
	}
	if r := objects[locks.Record](t, s, 0, "show", "x"); len(r) != 1 || len(r[0].Waiters) != 22 || r[0].Waiters[21].Place != 22 {
		t.Errorf("show --json: %+v", r)
	}
}

// mover takes the first out of a line after a page of it was read.
type mover struct{ move func() }

func (m *mover) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mover) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *mover) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasSuffix(fmt.Sprint(cmd.Args()), " 0 500]") && err == nil && m.move != nil {
			m.move()
			m.move = nil
		}
		return err
	}
}

func TestWhoMovesUpWhileALongLineIsReadIsShownAndOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb, other := s.Client(t), s.Client(t)
	line := "fairlock:queue:{x}"
	for i := range 1200 {
		must(t, other.RPush(t.Context(), line, fmt.Sprintf("%d:c:%d:30000::", i+1, i+1)).Err())
	}
	rdb.AddHook(&mover{move: func() { must(t, other.LPop(t.Context(), line).Err()) }})
	locker := fairlock.New(rdb)
	defer locker.Close()
	got := inspect(t, locker, "x")
	for i, w := range got.Waiters {
		if w.ID != fmt.Sprintf("c:%d", i+1) {
			t.Fatalf("at place %d is %s", i+1, w.ID)
		}
	}
	if len(got.Waiters) != 1200 {
		t.Errorf("%d are shown", len(got.Waiters))
	}
}

// forced is the output of force --json.
type forced struct {
	Name, Kind   string
	Forced, Next *locks.HolderRecord
}

func TestForceEndsAnOwnershipAndSaysWhoseItWasAndWhoIsNext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	holder := launch(t, s, "run", "--lease", "3s", "nightly", "--", "sh", "-c", "echo in; exec sleep 600")
	holder.says("in")
	next := launch(t, s, "run", "--lease", "3s", "nightly", "--", "sh", "-c", "echo in; exec sleep 600")
	inLine(t, locker, "nightly", 1)
	was := objects[locks.Record](t, s, 0, "show", "nightly")[0].Holder

	for _, token := range []string{"1", "0"} { // a hold that no node of a quorum knows is shown with 0
		p := launch(t, s, "force", "nightly", "--token", token)
		p.ends(1)
		p.complains("nightly", "token "+token, was.Note)
	}

	got := objects[forced](t, s, 0, "force", "nightly", "--token", strconv.FormatInt(was.Token, 10))[0]
	if got.Name != "nightly" || got.Kind != "fair" || got.Forced.Note != was.Note || got.Forced.Token != was.Token || got.Next == nil || got.Next.Token <= was.Token {
		t.Errorf("%+v of %+v", got, was)
	}
	holder.ends(76)
	next.says("in")

	checkText(t, "force", prints(t, s, 0, "force", "nightly"),
		"nightly: ended the ownership of "+got.Next.Note+" (token TOKEN), who had it for AGE\nnightly: nobody has it now")
	next.ends(76)
	p := launch(t, s, "force", "nightly")
	p.ends(1)
	p.complains(`nobody has the fair lock "nightly"`)
}

func TestForceSaysWhatItDidAlsoIfTheServerIsGoneThen(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"force", "nightly"}, {"force", "nightly", "--json"}} {
		s := redistest.Start(t)
		proxy := faultproxy.New(t, s.Addr())
		lease := take(t, observer(t, s), "nightly", fairlock.Note("web-1"))
		var done atomic.Bool
		proxy.Add(faultproxy.Rule{Action: faultproxy.DropRequest(), Match: func(args []string) bool {
			force := strings.EqualFold(args[0], "eval") && strings.HasPrefix(args[1], "-- force")
			return done.Swap(done.Load() || force)
		}})
		p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + proxy.Addr()}, args...).start()
		p.ends(69)
		text := strings.Join(p.rest(), "\n")
		if !strings.Contains(text, "web-1") || strings.Contains(text, "now") || strings.Contains(text, "next") {
			t.Errorf("%q: %s", args, text)
		}
		p.complains("the lock was forced all the same")
		if err := lease.Extend(t.Context(), time.Minute); !errors.Is(err, fairlock.ErrLost) {
			t.Error(err)
		}
	}
}

func TestAChangeThatTheServerDidNotAnswerMayHaveBeenDone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faultproxy.New(t, s.Addr())
	lease := take(t, observer(t, s), "nightly")
	waiter := waits(t, observer(t, s), "nightly")
	id := inspect(t, observer(t, s), "nightly").Waiters[0].ID
	asks := func(args ...string) *tool {
		p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + proxy.Addr()}, args...).start()
		p.ends(69)
		return p
	}
	away := proxy.Add(faultproxy.Rule{Action: faultproxy.DropRequest(), Match: faultproxy.Any})
	if text := asks("force", "nightly").stderr.String(); strings.Contains(text, "may have been done") {
		t.Errorf("it could only not look: %s", text)
	}
	away.Remove()
	proxy.Add(faultproxy.Rule{Action: faultproxy.SwallowReply(), Match: func(args []string) bool {
		return strings.EqualFold(args[0], "eval") && (strings.HasPrefix(args[1], "-- force") || strings.HasPrefix(args[1], "-- evict"))
	}})
	asks("evict", "nightly", id).complains("it may have been done all the same: look again")
	if err := <-waiter; !errors.Is(err, fairlock.ErrEvicted) {
		t.Error(err)
	}
	asks("force", "nightly").complains("it may have been done all the same: look again, and name the token")
	<-lease.Done()
}

func TestForceMeansAPlainLockOnlyIfTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := take(t, plainLocker(t, s.Client(t)), "cache", fairlock.Note("web-1"))
	p := launch(t, s, "force", "cache")
	p.ends(1)
	p.complains("web-1", "--plain")
	must(t, lease.Err())
	checkText(t, "force --plain", prints(t, s, 0, "force", "--plain", "cache"), "cache: ended the ownership of web-1 (token TOKEN), who had it for AGE\ncache: nobody has it now")
	select {
	case <-lease.Done():
	case <-time.After(patienceOfTests):
		t.Error("the holder was not told")
	}
}

// evicted is the output of evict --json.
type evicted struct {
	Name    string
	Evicted *locks.WaiterRecord
}

func TestEvictTakesTheWaiterThatShowNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker, other := observer(t, s), observer(t, s)
	take(t, locker, "x")
	first := waits(t, other, "x", fairlock.Note("first"))
	second := waits(t, other, "x", fairlock.WithOwner("second"))
	line := objects[locks.Record](t, s, 0, "show", "x")[0].Waiters
	client, _, _ := strings.Cut(line[0].ID, ":")

	p := launch(t, s, "evict", "x", client)
	p.ends(64)
	p.complains("2 waiters")
	p = launch(t, s, "evict", "x", "nobody")
	p.ends(1)
	p.complains(`"nobody"`, `"x"`)

	checkText(t, "evict", prints(t, s, 0, "evict", "x", line[0].ID), "x: evicted first, who had place 1 and waited for AGE")
	if err := <-first; !errors.Is(err, fairlock.ErrEvicted) {
		t.Errorf("the call of who was evicted: %v", err)
	}
	got := objects[evicted](t, s, 0, "evict", "x", line[1].ID[:8])
	if len(got) != 1 || got[0].Name != "x" || got[0].Evicted.Owner != "second" || got[0].Evicted.Place != 1 {
		t.Errorf("%+v", got)
	}
	if err := <-second; !errors.Is(err, fairlock.ErrEvicted) {
		t.Errorf("the call of who was evicted: %v", err)
	}
	launch(t, s, "evict", "x", line[1].ID).ends(1)
}

func TestAWholeIDEvictsNobodyWhoseIDBeginsLikeIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker, other := observer(t, s), observer(t, s)
	take(t, locker, "x")
	var ids []string
	for range 12 {
		waits(t, other, "x")
		line := objects[locks.Record](t, s, 0, "show", "x")[0].Waiters
		ids = append(ids, line[len(line)-1].ID)
	}
	begins := func(id string) bool {
		return slices.ContainsFunc(ids, func(other string) bool { return other != id && strings.HasPrefix(other, id) })
	}
	i := slices.IndexFunc(ids, begins)
	if i < 0 {
		t.Fatalf("no id begins another: %q", ids)
	}
	prints(t, s, 0, "evict", "x", ids[i])
	launch(t, s, "evict", "x", ids[i]).ends(1)
}

func TestVersionSaysWhichFairlockThisIs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if text := prints(t, s, 0, "version"); !strings.HasPrefix(text, "fairlock ") || !strings.Contains(text, ", protocol 1 (go1.") {
		t.Errorf("%q", text)
	}
	if got := objects[versionRecord](t, s, 0, "version"); len(got) != 1 || got[0].Version == "" || got[0].Protocol != 1 || !strings.HasPrefix(got[0].Go, "go1.") {
		t.Errorf("%+v", got)
	}
}

func TestAnOutputThatCannotBeWrittenIs74(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("NOT SHOWN: %v", err)
	}
	defer full.Close()
	locker := observer(t, s)
	take(t, locker, "x")
	inLine(t, locker, "x", 0)
	for args, said := range map[string]string{
		"ls": "standard output", "man": "standard output", "completion bash": "standard output", "run --help": "standard output",
		"force x": "the lock was forced",
	} {
		p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, strings.Fields(args)...)
		p.startOn(full)
		p.ends(74)
		p.complains("standard output", said)
	}
}

func TestAChangeOfWhichNobodyReadsIsTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	take(t, locker, "x")
	inLine(t, locker, "x", 0)
	p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, "force", "x")
	r, w, err := os.Pipe()
	must(t, err)
	must(t, r.Close())
	p.startOn(w)
	must(t, w.Close())
	p.ends(74)
	p.complains("broken pipe", "the lock was forced")
}

func TestAPasswordThatAServerRepeatsIsNotShown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--rename-command", "AUTH", "")
	for _, args := range []string{"ls", "show x", "doctor", "doctor --json", "run x -- true", "force x"} {
		p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://user:s3cr3t@" + s.Addr()}, strings.Fields(args)...)
		p.cmd.Stderr = nil
		said, err := p.cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(said), "unknown command") || strings.Contains(string(said), "s3cr3t") {
			t.Errorf("%s: %v, and it says %s", args, err, said)
		}
	}
}
