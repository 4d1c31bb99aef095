package snippets_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

// ruleOf is the rule that the threat page has for a user.
func ruleOf(t *testing.T, user string) []string {
	t.Helper()
	for _, block := range blocks(guides(t)["security.md"], "acl") {
		if words := strings.Fields(block); words[2] == user {
			return words
		}
	}
	t.Fatalf("there is no %s", user)
	return nil
}

// follows makes the user and is a client of it.
func follows(t *testing.T, s *redistest.Server, rule []string) *redis.Client {
	t.Helper()
	admin := s.Client(t)
	must(t, admin.Do(t.Context(), "ACL", "DELUSER", rule[2]).Err())
	command := make([]any, 0, len(rule))
	for _, word := range rule {
		command = append(command, word)
	}
	must(t, admin.Do(t.Context(), command...).Err())
	return s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.ClientName = rule[2], "password", named(rule[2]) })
}

// named is the name of the tool's client, which an application's need not have.
func named(user string) string {
	if user == "shop" {
		return ""
	}
	return "fairlock"
}

// refused are the complaints of the server, without what nobody misses.
func refused(t *testing.T, s *redistest.Server) {
	t.Helper()
	for _, entry := range s.Client(t).ACLLog(t.Context(), 10).Val() {
		if entry.Object != "client|setinfo" {
			t.Errorf("refused: %+v", *entry)
		}
	}
}

var ours = fairlock.WithPrefix("shop")

func TestTheApplicationOfTheThreatPageTakesFairLocksOfItsPrefixAndNoOthers(t *testing.T) {
	s := redistest.Start(t)
	rdb := follows(t, s, ruleOf(t, "shop"))
	locker := fairlock.New(rdb, ours, fairlock.WithLease(renewedSoon))
	defer locker.Close()
	exercises(t, locker, fairlock.Note("first"))
	refused(t, s)
	other := fairlock.New(rdb)
	defer other.Close()
	if _, err := other.TryLock(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("another prefix: %v", err)
	}
}

func TestTheApplicationOfTheThreatPageTakesPlainLocksToo(t *testing.T) {
	s := redistest.Start(t)
	locker := reentrant.New(follows(t, s, ruleOf(t, "shop")), ours, fairlock.WithLease(renewedSoon))
	defer locker.Close()
	exercises(t, locker, fairlock.Note("first"))
	refused(t, s)
}

func TestTheApplicationOfTheThreatPageHasTheCommandsOfTheGuide(t *testing.T) {
	commands := func(rule []string) []string {
		return slices.DeleteFunc(slices.Clone(rule), func(word string) bool { return word[0] != '+' })
	}
	guide := strings.Fields(blocks(guides(t)["operations.md"], "acl")[0])
	if got, want := commands(ruleOf(t, "shop")), commands(guide); !slices.Equal(got, want) {
		t.Errorf("docs/security.md has\n%q\nand docs/operations.md\n%q", got, want)
	}
}

// stage is a lock that is held and one that is waited for, of the application.
func stage(t *testing.T, s *redistest.Server) (lease *fairlock.Lease, locker *fairlock.Locker) {
	t.Helper()
	locker = fairlock.New(s.Client(t), ours)
	t.Cleanup(func() { _ = locker.Close() })
	lease = take(t, locker, "held")
	queues(t, locker, "held")
	queues(t, locker, "held")
	return lease, locker
}

// looks does all that a monitor does.
func looks(ctx context.Context, l *fairlock.Locker) error {
	state, err := l.Inspect(ctx, "held")
	if err == nil && (state.Holder == nil || len(state.Waiters) == 0) {
		err = fmt.Errorf("it sees %+v", state)
	}
	found := 0
	for _, e := range l.List(ctx) {
		err = errors.Join(err, e)
		found++
	}
	for _, e := range l.Overhear(ctx) {
		err = errors.Join(err, e)
		break // it hears
	}
	if found != 1 {
		err = errors.Join(err, fmt.Errorf("it finds %d locks", found))
	}
	return err
}

// stepsIn does all that an operator does, and returns the first error.
func stepsIn(ctx context.Context, l *fairlock.Locker) error {
	if err := looks(ctx, l); err != nil {
		return err
	}
	state, err := l.Inspect(ctx, "held")
	if err != nil {
		return err
	}
	last := state.Waiters[len(state.Waiters)-1]
	return errors.Join(l.Evict(ctx, "held", last.ID), l.ForceUnlock(ctx, "held"))
}

func TestTheMonitorOfTheThreatPageSeesAllAndChangesNothing(t *testing.T) {
	s := redistest.Start(t)
	lease, _ := stage(t, s)
	rdb := follows(t, s, ruleOf(t, "shop-monitor"))
	locker := fairlock.New(rdb, ours)
	defer locker.Close()
	must(t, looks(t.Context(), locker))
	refused(t, s)
	state, err := locker.Inspect(t.Context(), "held")
	must(t, err)
	_, taken := locker.TryLock(t.Context(), "free")
	for what, err := range map[string]error{
		"take":  taken,
		"force": locker.ForceUnlock(t.Context(), "held"),
		"evict": locker.Evict(t.Context(), "held", state.Waiters[0].ID),
		"free":  rdb.Del(t.Context(), "shop:lock:{held}").Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), "may not run") && !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, lease.Err())
	if after, err := locker.Inspect(t.Context(), "held"); err != nil || after.Waiting != state.Waiting || after.Token != state.Token {
		t.Errorf("%+v, %v", after, err)
	}
}

func TestTheOperatorOfTheThreatPageForcesAndEvicts(t *testing.T) {
	s := redistest.Start(t)
	lease, _ := stage(t, s)
	locker := fairlock.New(follows(t, s, ruleOf(t, "shop-operator")), ours)
	defer locker.Close()
	must(t, stepsIn(t.Context(), locker))
	refused(t, s)
	<-lease.Done()
}

func TestTheOperatorAndTheMonitorOfTheThreatPageHaveTheCommandsOfTheirScripts(t *testing.T) {
	both := []string{"eval", "evalsha", "publish", "psubscribe", "punsubscribe", "ping", "pubsub|numsub", "info", "scan", "client|setname"}
	for user, scripts := range map[string][]string{
		"shop-monitor":  {"inspect"},
		"shop-operator": {"inspect", "force", "evict", "leave"}, // which sees to it that the line goes on
	} {
		needed := map[string]bool{}
		for _, name := range both {
			needed[name] = true
		}
		for _, script := range scripts {
			source := lua.Whole(script+".lua", func(name string) string {
				text, err := os.ReadFile("../../lua/" + name)
				must(t, err)
				return string(text)
			})
			for _, call := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllStringSubmatch(source, -1) {
				if name := strings.ToLower(call[1]); name != "pubsub" {
					needed[name] = true
				}
			}
		}
		told := map[string]bool{}
		for _, word := range ruleOf(t, user) {
			if name, ok := strings.CutPrefix(word, "+"); ok {
				told[name] = true
			}
		}
		if got, want := slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(needed)); !slices.Equal(got, want) {
			t.Errorf("docs/security.md tells %s\n%q\nand what is needed is\n%q", user, got, want)
		}
	}
}

// unmissed are rights without which nothing fails in so short a life: nobody looks at the version,
// and a connection that hears nothing is not looked after.
var unmissed = []string{"info", "ping", "punsubscribe"}

func TestEachRightOfTheMonitorOfTheThreatPageIsNeeded(t *testing.T) {
	s := redistest.Start(t)
	stage(t, s)
	rule := ruleOf(t, "shop-monitor")
	for i, without := range rule {
		what := strings.ReplaceAll(strings.Trim(without, "+~&*"), "|", " ")
		if !strings.ContainsAny(without[:1], "+~&") || slices.Contains(unmissed, what) || strings.Contains(what, "plain:") {
			continue
		}
		t.Run(what, func(t *testing.T) {
			must(t, s.Client(t).ScriptFlush(t.Context()).Err())
			var said complaints
			rdb := follows(t, s, slices.Delete(slices.Clone(rule), i, i+1))
			locker := fairlock.New(rdb, ours, fairlock.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
			defer locker.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if looks(ctx, locker) == nil && !said.name(what) {
				t.Error("nobody misses it")
			}
		})
	}
}
