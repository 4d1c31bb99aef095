package faultproxy

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func TestARuleActsAsOftenAsItSays(t *testing.T) {
	p := New(t, miniredis.RunT(t).Addr())
	rule := p.Add(Rule{Match: Command("ECHO"), Times: 2, Action: saying("rule")})
	w := dialWire(t, p.Addr())
	for _, want := range []string{"rule", "rule", "x"} {
		w.send("ECHO", "x")
		w.wants(bulk(want))
	}
	if rule.Hits() != 2 || rule.Executed() != 2 {
		t.Fatalf("%d hits, %d executed", rule.Hits(), rule.Executed())
	}
}

func TestOfSeveralRulesTheFirstActsUntilItIsUsedUpOrRemoved(t *testing.T) {
	p := New(t, miniredis.RunT(t).Addr())
	p.Add(Rule{Match: Command("ECHO"), Times: 1, Action: saying("one")})
	two := p.Add(Rule{Match: Any, Action: saying("two")})
	p.Add(Rule{Match: CommandWith("ECHO", "x"), Action: saying("three")})
	w := dialWire(t, p.Addr())
	for _, want := range []string{"one", "two", "two", "three"} {
		if want == "three" {
			two.Remove()
		}
		w.send("ECHO", "x")
		w.wants(bulk(want))
	}
}

func TestAnObserverCountsWhateverOtherRulesDo(t *testing.T) {
	p := New(t, miniredis.RunT(t).Addr())
	before := p.Add(Rule{Match: Command("echo"), Action: Observe()})
	p.Add(Rule{Match: Command("ECHO"), Action: saying("rule")})
	after := p.Add(Rule{Match: Command("Echo"), Action: Observe()})
	w := dialWire(t, p.Addr())
	w.send("eCHO", "x")
	w.wants(bulk("rule"))
	for _, h := range []*Handle{before, after} {
		if h.Hits() != 1 || h.Executed() != 1 {
			t.Fatalf("%d hits, %d executed", h.Hits(), h.Executed())
		}
	}
}

func TestCommandWithWantsTheNameAndTheWholeArgument(t *testing.T) {
	match := CommandWith("EVALSHA", "key")
	for request, want := range map[string]bool{
		"evalsha sha 1 key": true, "EVALSHA key": true, "GET key": false, "evalsha sha 1 key2": false, "key": false,
	} {
		if got := match(strings.Fields(request)); got != want {
			t.Errorf("%q: %v", request, got)
		}
	}
}

func TestARuleWithoutAMatchOrAnActionIsRefused(t *testing.T) {
	for _, rule := range []Rule{{}, {Match: Any}, {Action: Observe()}} {
		got := fatalOf(t, func(tb testing.TB) { New(tb, "127.0.0.1:1").Add(rule) })
		if !strings.Contains(got, "needs a Match and an Action") {
			t.Errorf("%+v: %q", rule, got)
		}
	}
}

func TestAWaitThatIsInVainFailsTheTestAndSaysHowFarItGot(t *testing.T) {
	h := newHandle(Rule{Match: Any, Action: Observe()})
	h.claim(nil)
	h.WaitHit(t, 1, 0) // has happened: does not need time
	got := fatalOf(t, func(tb testing.TB) { h.WaitHit(tb, 2, time.Millisecond) })
	if got != "faultproxy: 1 hits of the rule after 1ms, want 2" {
		t.Error(got)
	}
	got = fatalOf(t, func(tb testing.TB) { h.WaitExecuted(tb, 1, time.Millisecond) })
	if got != "faultproxy: 0 executions of the rule after 1ms, want 1" {
		t.Error(got)
	}
}

func saying(text string) Action {
	return RewriteReply(func([]byte) []byte { return []byte(bulk(text)) })
}

func bulk(text string) string {
	_, after, _ := strings.Cut(string(encode(text)), "\r\n")
	return after
}
