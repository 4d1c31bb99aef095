package torture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// This is what the scripts write for one lock. Times are in ms. a and b are tickets of process p, c
// is one of q.
const a, b, c = "A:1:1000::p", "B:1:1000::p", "C:1:1000::q"

func wait(at int, ticket string) [][]string {
	return [][]string{{"RPUSH", "fairlock:queue:{x}", fmt.Sprint(at) + ":" + ticket}, clockOf(at)}
}

// clockOf shows the time as a script would.
func clockOf(at int) []string {
	return []string{"PEXPIREAT", "fairlock:waiters:{x}", fmt.Sprint(at + 60_000)}
}

func back(at, place int, ticket, before string) [][]string {
	return [][]string{{"LINSERT", "fairlock:queue:{x}", "BEFORE", before, fmt.Sprint(place) + ":" + ticket}, clockOf(at)}
}

func hold(at int, ticket string) [][]string {
	return [][]string{{
		"HSET", "fairlock:lock:{x}", "owner", "o", "token", fmt.Sprint(at), "since", fmt.Sprint(at), "lease", "1000", ticket, "1:1",
	}}
}

func free() [][]string { return [][]string{{"DEL", "fairlock:lock:{x}"}} }
func pop() [][]string  { return [][]string{{"LPOP", "fairlock:queue:{x}"}} }

// gives is a hand-over: the record goes, and the first ticket in line has the lock.
func gives(at int, ticket string) [][]string { return slices.Concat(free(), pop(), hold(at, ticket)) }

func mark(at int, client string) [][]string {
	return [][]string{{"ZADD", "fairlock:waiters:{x}", fmt.Sprint(-at - 15_000), client}, clockOf(at)}
}

// gather gives all waiters until then to come back.
func gather(until int) [][]string {
	return [][]string{{"ZADD", "fairlock:waiters:{x}", fmt.Sprint(-until), "?"}}
}

// script returns what one script writes.
func script(parts ...[][]string) [][]string {
	return slices.Concat([][]string{{"MULTI"}}, slices.Concat(parts...), [][]string{{"EXEC"}})
}

// follow has a judge follow what some scripts wrote for two processes. The saboteur had cut off q
// from 100 to 200 ms.
func follow(scripts ...[][]string) *order {
	o := newOrder(map[string]*life{"p": {Process: "p"}, "q": {Process: "q", Seat: 1}}, nil, []*trouble{
		{Kind: "cut", Seat: 1, From: 100e6, To: 200e6},
	})
	for _, words := range slices.Concat(scripts...) {
		o.show(words)
	}
	o.end(o.now)
	return o
}

func TestTheJudgeOfOrderSeesEveryInversion(t *testing.T) {
	for name, test := range map[string]struct {
		scripts    [][][]string
		inversions int
		disorder   int
	}{
		"in order":                         {[][][]string{hold(1, a), script(wait(2, b)), script(wait(3, c)), script(gives(4, b)), script(gives(5, c))}, 0, 0},
		"the second before the first":      {[][][]string{hold(1, a), script(wait(2, b)), script(wait(3, c)), {{"LREM", "fairlock:queue:{x}", "1", "3:" + c}}, script(free(), hold(4, c))}, 1, 0},
		"a newcomer before one in line":    {[][][]string{script(wait(2, b)), hold(3, a)}, 1, 0},
		"passed over without a reason":     {[][][]string{hold(1, a), script(wait(2, b)), script(wait(3, c)), script(free(), pop(), pop(), hold(4, c))}, 1, 0},
		"passed over while it was cut off": {[][][]string{hold(1, a), script(wait(2, c)), script(wait(3, b)), script(free(), pop(), pop(), hold(150, b))}, 0, 0},
		"passed over long after that":      {[][][]string{hold(1, a), script(wait(2, c)), script(wait(3, b)), script(free(), pop(), pop(), hold(4000, b))}, 1, 0},
		"passed over again, as its client is not back": {[][][]string{
			hold(1, a), script(wait(2, c)), script(wait(3, b)), script(free(), pop(), mark(150, "?C"), pop(), hold(150, b)),
			script(back(4000, 2, c, "")), script(free(), pop(), mark(4001, "?C")),
		}, 0, 0},
		"passed over after its client was back": {[][][]string{
			hold(1, a), script(wait(2, c)), script(wait(3, b)), script(free(), pop(), mark(150, "?C"), pop(), hold(150, b)),
			script(back(4000, 2, c, ""), [][]string{{"ZREM", "fairlock:waiters:{x}", "?C"}}), script(free(), pop(), mark(4001, "?C")),
		}, 1, 0},
		"overtaken while it is out":          {[][][]string{hold(1, a), script(wait(2, c)), script(free(), pop(), mark(150, "?C")), hold(160, b)}, 0, 0},
		"overtaken when it is back":          {[][][]string{hold(1, a), script(wait(2, c)), script(free(), pop(), mark(150, "?C")), script(back(155, 2, c, "")), hold(160, b)}, 1, 0},
		"granted before all could come back": {[][][]string{script(hold(1, a), gather(1000)), free(), hold(900, b)}, 1, 0},
		"granted after that":                 {[][][]string{script(hold(1, a), gather(1000)), free(), hold(1001, b)}, 0, 0},
		"left of its own accord":             {[][][]string{hold(1, a), script(wait(2, b)), script(mark(3, "!"+b)), script(free(), pop())}, 0, 0},
		"taken out with others":              {[][][]string{hold(1, a), script(wait(2, b)), script(wait(3, c)), {{"LSET", "fairlock:queue:{x}", "0", ""}, {"LREM", "fairlock:queue:{x}", "0", ""}}, script(gives(4, c))}, 0, 0},
		"a place made up":                    {[][][]string{script(wait(3, a)), script(back(4, 2, b, "3:"+a))}, 1, 0},
		"a second time with a new place":     {[][][]string{script(wait(3, a)), script(pop(), hold(4, a)), free(), script(wait(5, a))}, 0, 0},
		"an old token":                       {[][][]string{hold(5, a), free(), hold(4, b)}, 0, 1},
		"one record over another":            {[][][]string{hold(4, a), hold(5, b)}, 0, 1},
		"over what is left of one":           {[][][]string{hold(4, a), script([][]string{{"HDEL", "fairlock:lock:{x}", a}}, hold(5, b))}, 0, 0},
		"over one that an owner may share":   {[][][]string{hold(4, "p:1:1000:o:"), script([][]string{{"HDEL", "fairlock:lock:{x}", "p:1:1000:o:"}}, hold(5, b))}, 0, 1},
	} {
		o := follow(test.scripts...)
		if len(o.inversions) != test.inversions || len(o.disorder) != test.disorder {
			t.Errorf("%s: %q, %q", name, o.inversions, o.disorder)
		}
	}
}

func TestAfterALossOfDataPlacesAreTheSameAndNobodyIsHeldToTheLineThatWas(t *testing.T) {
	o := follow(hold(1, a), script(wait(2, b)), script(wait(3, c)))
	o.lost(int64(10e6))
	for _, words := range slices.Concat(script(wait(3, c)), script(pop(), hold(12, c)), script(back(13, 2, b, "")), script(gives(14, b))) {
		o.show(words)
	}
	if len(o.inversions)+len(o.disorder) != 0 {
		t.Fatalf("%q, %q", o.inversions, o.disorder)
	}
}

func TestALockThatIsFreeWhileSomebodyWaitsIsObjectedTo(t *testing.T) {
	for name, test := range map[string]struct {
		scripts [][][]string
		wrong   int
	}{
		"given at once": {[][][]string{hold(1, a), script(wait(2, b)), script(gives(3, b))}, 0},
		"given late":    {[][][]string{hold(1, a), script(wait(2, b)), script(free(), [][]string{clockOf(3)}), script(pop(), hold(20_000, b))}, 1},
		"never given":   {[][][]string{hold(1, a), script(wait(2, b)), script(free(), [][]string{clockOf(3)}), script([][]string{clockOf(20_000)})}, 1},
		"left meanwhile": {[][][]string{
			hold(1, a), script(wait(2, b)), script(free(), [][]string{clockOf(3)}),
			script([][]string{clockOf(20_000)}, [][]string{{"LREM", "fairlock:queue:{x}", "1", "2:" + b}}),
		}, 0},
		"kept for those who are to come back": {[][][]string{hold(1, a), script(wait(2, b), gather(19_000)), script(free(), [][]string{clockOf(3)}), script(pop(), hold(20_000, b))}, 0},
		"back at once":                        {[][][]string{hold(1, a), script(wait(2, c)), script(free(), pop(), mark(150, "?C")), script(back(300, 2, c, ""))}, 0},
		"back late":                           {[][][]string{hold(1, a), script(wait(2, c)), script(free(), pop(), mark(150, "?C")), script(back(20_000, 2, c, ""))}, 1},
	} {
		if wrong := follow(test.scripts...).stands(); len(wrong) != test.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestWhoIsInLineAtTheEndIsALostTicket(t *testing.T) {
	o := follow(hold(1, a), script(wait(2, b)), script(wait(3, c)))
	o.lives["q"].Killed = int64(time.Second)
	if wrong := o.waiting(); len(wrong) != 1 || !strings.Contains(wrong[0], b) {
		t.Fatalf("%q", wrong)
	}
}

func TestABusyServerKeepsFromComingBackButEndsNoSubscription(t *testing.T) {
	l := &life{Process: "p", Seat: 1}
	busy := []*trouble{{Kind: "BUSY", Seat: everybody, From: at(1000), To: at(2500)}}
	both := slices.Concat([]*trouble{{Kind: "cut", Seat: 1, From: at(500), To: at(500)}}, busy)
	if _, away := l.unreachable(busy, at(2000), at(2000)); away {
		t.Error("a ping that is refused has ended a subscription")
	}
	for when, want := range map[int64]bool{4400: true, 4600: false} {
		if _, away := l.unreachable(both, at(when), at(when)); away != want {
			t.Errorf("cut off from a server that then was busy, at %d ms: %v", when, away)
		}
	}
}

func TestAMachineThatStandsStillForAMomentEndsNoSubscription(t *testing.T) {
	l := &life{Process: "p", Seat: 1}
	for until, want := range map[int64]bool{1500: false, 4000: true} {
		still := []*trouble{{Kind: machineStood, Seat: everybody, From: at(1000), To: at(until)}}
		if _, away := l.unreachable(still, at(until), at(until)); away != want {
			t.Errorf("until %d ms: %v", until, away)
		}
	}
}

func TestOnlyWhatNobodyDidIsTheMachines(t *testing.T) {
	s := &stalls{end: make(chan struct{}), seen: []*trouble{{From: at(1), To: at(2)}, {From: at(3), To: at(4)}, {From: at(6), To: at(7)}}}
	made := []*trouble{{Seat: everybody, From: at(3), To: at(5)}, {Seat: 1, From: at(6), To: at(7)}}
	if all := s.ends(made); len(all) != 2 || all[0].To != at(2) || all[1].To != at(7) {
		t.Errorf("%v", all)
	}
}

func TestTimesInWhichAProcessStoodStillCountOnce(t *testing.T) {
	l := &life{stills: merged([]stretch{{from: 5, to: 9}, {from: 1, to: 3}, {from: 2, to: 4}, {from: 6, to: 7}})}
	if stood := l.stood(0, 10); stood != 7 {
		t.Errorf("%d", stood)
	}
}

func TestACutExcusesForAsLongAsItsVictimIsKeptFromComingBack(t *testing.T) {
	l := &life{Process: "p", Seat: 1}
	troubles := []*trouble{
		{Kind: "CLIENT PAUSE ALL", Seat: everybody, From: at(0), To: at(1500)},
		{Kind: "cut", Seat: 1, From: at(500), To: at(500)},
		{Kind: "delay", Seat: 1, From: at(1000), To: at(9000)},
		{Kind: "cut", Seat: 2, From: at(2000), To: at(9000)},
		{Kind: "MISCONF", Seat: everybody, From: at(3000), To: at(9000)}, // the answer to a ping is no reason
		{Kind: "BUSY", Seat: everybody, From: at(8000), To: at(9000)},
	}
	for when, want := range map[int64]bool{499: false, 500: true, 3400: true, 3600: false, 8000: false} {
		if _, got := l.unreachable(troubles, at(when), at(when)); got != want {
			t.Errorf("at %d ms: %v", when, got)
		}
	}
}
