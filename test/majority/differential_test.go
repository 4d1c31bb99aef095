package majority

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fairlock/locks/test/race"
)

// start is a time of the nodes' clocks: their epoch, in the world's milliseconds.
var start = epoch.UnixMilli()

// pair is a node of Go and one of the scripts, to which the same happens.
type pair struct {
	*script
	node
	request
	step int
}

func newPair(t *testing.T, m mutation, changes ...change) *pair {
	t.Helper()
	return &pair{script: newReal(t, changes...), node: node{holder: nobody, run: 1}, request: request{now: start, broken: m}}
}

// same fails unless both replied and told the same, and look alike.
func (p *pair) same(what string, want, got []any, told []string) error {
	if fmt.Sprint(want) != fmt.Sprint(got) {
		return fmt.Errorf("step %d, %s: the model replied %v, the script %v", p.step, what, want, got)
	}
	var mine []string
	for _, m := range p.request.told {
		mine = append(mine, p.text(m))
	}
	if !slices.Equal(mine, told) {
		return fmt.Errorf("step %d, %s: the model told %q, the script %q", p.step, what, mine, told)
	}
	if mine, its := p.shown(), p.captured(); mine != its {
		return fmt.Errorf("step %d, %s:\n the model has %s\nthe script has %s", p.step, what, mine, its)
	}
	return nil
}

func (p *pair) text(m push) string {
	about := ticket(m.call) + " " + keys[0]
	switch m.news {
	case grants:
		return fmt.Sprintf("grant %d %d %d %s", m.at, claim, m.token, about)
	case wants:
		return fmt.Sprintf("wanted %d %s", m.token, about)
	case forces:
		return fmt.Sprintf("forced %d %s", m.token, about)
	}
	return "evicted " + about
}

// shown is the model's node in words.
func (p *pair) shown() string {
	n := p.node
	n.expire(&p.request)
	text := ""
	if n.holder != nobody {
		text = fmt.Sprintf("%s token %d since %d decided %t depth %d for %d ms; ", ticket(n.holder), n.token, n.since, n.decided, n.depth, n.ends-p.now)
	}
	for c := range int8(most) {
		text += fmt.Sprintf("%d alive %d blind %d mark %d; ", n.places[c], n.alive[c], n.blind[c], n.marks[c])
	}
	return text + fmt.Sprintf("last %d for %d ms run %d from %d", n.last, max(0, n.lasts-p.now), n.kept, n.from)
}

// captured is the script's node in the same words.
func (p *pair) captured() string {
	m, text := p.mini, ""
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	if m.Exists(keys[0]) {
		text = fmt.Sprintf("%s token %s since %s decided %t depth %d for %d ms; ", m.HGet(keys[0], "ticket"), m.HGet(keys[0], "token"),
			m.HGet(keys[0], "since"), m.HGet(keys[0], "decided") == "1", number(m.HGet(keys[0], "depth")), m.TTL(keys[0]).Milliseconds())
	}
	score := func(key, member string) int64 {
		if all, err := m.SortedSet(key); err == nil {
			return int64(all[member])
		}
		return 0
	}
	for c := range int8(most) {
		text += fmt.Sprintf("%d alive %d blind %d mark %d; ", score(keys[1], ticket(c)), score(keys[2], ticket(c)),
			score(keys[2], "~"+names[c]), p.marked(c))
	}
	last, _ := m.Get(keys[3])
	return text + fmt.Sprintf("last %d for %d ms run %d from %d", number(last), m.TTL(keys[3]).Milliseconds(), number(m.HGet(keys[4], "run")), number(m.HGet(keys[4], "from")))
}

// marked is what the script's node keeps of a call that has left.
func (p *pair) marked(c int8) mark {
	switch text, err := p.mini.Get(markKey(c)); {
	case err != nil:
		return unmarked
	case text == "evicted":
		return taken
	case text == "forced":
		return forcedOut
	}
	return retired
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func nameOf(c int8) string {
	if c == nobody {
		return ""
	}
	return ticket(c)
}

// enters has both do the same enter.
func (p *pair) enters(c int8, place, bound, back int64) error {
	a := p.enter(&p.request, c, place, bound, back)
	var want []any
	switch a.status {
	case gone:
		want = []any{"gone"}
	case granted:
		want = []any{"granted", int(a.now), int(a.token), int(a.since), int(a.left), int(a.place), bit(a.older)}
	default:
		name := [...]string{waits: "waits", held: "held", full: "full"}[a.status]
		want = []any{name, int(a.now), int(a.left), int(a.place), int(a.position), bit(a.pending), nameOf(a.holder), int(a.token)}
	}
	args := []any{ticket(c), setName, longest, place, bound, back}
	if place == 0 && bound == 0 && back == 0 {
		args = args[:3]
	}
	got, told := p.does("enter", append(keys[:], markKey(c)), args...)
	if us, ok := got[0].(int); ok { // in short
		got = []any{"granted", us, us, us, int(claim), us, 0}
	}
	return p.same(fmt.Sprint("enter ", c, place, bound, back), want, got, told)
}

func (p *pair) leaves(c int8, token int64, late bool, by taking) error {
	if p.me = c; by != itself {
		p.me = nobody
	}
	was := p.leave(&p.request, c, token, late, by)
	name := [...]string{neither: "neither", waited: "waited", hadIt: "held", forgot: "forgotten", forcedBefore: "forced"}[was]
	args := []any{ticket(c), setName, longest, token, bit(late || by == eviction) * 60_000, int(by)}
	if !late && by == itself {
		args = args[:4]
	}
	got, told := p.does("leave", append(keys[:], markKey(c)), args...)
	if got[0] == 1 { // in short
		got = []any{"held"}
	}
	return p.same(fmt.Sprint("leave ", c, token, late, by), []any{name}, got, told)
}

func (p *pair) beats(c int8) error {
	a := p.beat(&p.request, c)
	missing := []any{}
	if a.missing {
		missing = []any{ticket(c)}
	}
	want := []any{int(a.now), int(a.left), nameOf(a.holder), int(a.token), int(a.since), bit(a.older), missing}
	got, told := p.does("beat", keys[:], names[c], setName, longest, ticket(c))
	return p.same(fmt.Sprint("beat ", c), want, got, told)
}

func (p *pair) renews(c int8, token, lease, place int64, decided bool) error {
	left := p.renew(&p.request, c, token, lease, place, decided)
	named := []string{keys[4], keys[0], keys[1], keys[2], keys[3], markKey(c)}
	got, told := p.does("renew", named, names[c], setName, longest, ticket(c), token, lease, 0, place, 1, bit(decided))
	return p.same(fmt.Sprint("renew ", c, token, lease, place, decided), []any{int(left)}, got, told)
}

// trouble does something to the server.
func (p *pair) trouble(random *rand.Rand) {
	c := int8(random.IntN(most))
	switch random.IntN(8) {
	case 0, 1:
		p.heard[c] = !p.heard[c]
		p.script.hears(c, p.heard[c])
	case 2:
		p.flush()
		p.mini.FlushAll()
	case 3:
		p.restart(none)
		p.mini.FlushAll()
	case 4:
		p.restart(yesterdays)
		for _, key := range p.mini.Keys() {
			if key != keys[4] {
				p.mini.Del(key)
			}
		}
	case 5:
		p.restart(all)
	case 6: // what a vote ends by is from before the clock was set back
		if p.node.expire(&p.request); p.holder != nobody {
			p.ends = p.now + 3*claim
			p.mini.SetTTL(keys[0], 3*time.Duration(claim)*time.Millisecond)
		}
	case 7: // and what a quarantine does
		if p.kept != 0 {
			p.from = p.now + 3*claim
			p.mini.HSet(keys[4], "from", strconv.FormatInt(p.from, 10))
		}
	}
	p.script.run = p.node.run
	for c := range int8(most) {
		p.script.hears(c, p.heard[c])
	}
}

// moves does something at random.
func (p *pair) moves(random *rand.Rand) error {
	p.step++
	p.request.told = nil
	if span := []int64{0, 0, 0, 1, 700, 1450}[random.IntN(6)]; p.step%2 == 0 {
		p.now += span
		p.mini.SetTime(time.UnixMilli(p.now))
	}
	c := int8(random.IntN(most))
	token := []int64{0, p.node.token, p.last, p.last + 3, (p.now + claim + 1000) * 1000}[random.IntN(5)]
	place := []int64{0, 0, p.places[c], p.us(&p.request) + int64(random.IntN(3)), p.us(&p.request) - 2}[random.IntN(5)]
	switch random.IntN(14) {
	case 0, 1, 2, 3, 4:
		bound := []int64{0, 0, 0, 0, -1, 1}[random.IntN(6)]
		return p.enters(c, max(place, 0), bound, token)
	case 5, 6, 7:
		by := [12]taking{byForce, byForce, eviction, eviction}[random.IntN(12)]
		return p.leaves(c, token, random.IntN(8) == 0, by)
	case 8, 9:
		return p.beats(c)
	case 10, 11, 12:
		decided := random.IntN(2) == 0
		return p.renews(c, max(token, 1), int64(bit(decided))*claim, max(place, 1), decided)
	}
	p.trouble(random)
	return nil
}

// programs is how many random programs a pair runs, and steps how long each is.
const (
	programs = 300
	steps    = 60
)

// agree runs random programs until the two differ.
func agree(t *testing.T, m mutation, changes ...change) error {
	t.Helper()
	p := newPair(t, m, changes...)
	count := programs
	switch {
	case race.Enabled:
		count = 8
	case testing.Short(), m != sound:
		count = 40
	}
	for seed := range uint64(count) {
		random := rand.New(rand.NewPCG(seed, 1))
		p.mini.FlushAll()
		p.node, p.step = node{holder: nobody, run: 1}, 0
		p.script.run = 1
		for c := range int8(most) {
			p.script.hears(c, false)
		}
		p.node.kept = int8(seed % 2) // a node that was met before, or not
		if seed%2 == 1 {
			p.mini.HSet(keys[4], "run", "1", "from", "0", "set", setName, "most", strconv.FormatInt(longest, 10))
		}
		for range steps {
			if err := p.moves(random); err != nil {
				return fmt.Errorf("program %d, %w", seed, err)
			}
		}
	}
	return nil
}

func TestTheModelOfANodeAgreesWithTheScripts(t *testing.T) {
	if err := agree(t, sound); err != nil {
		t.Fatal(err)
	}
}
