package demo

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// in and out return events as workers send them.
func in(lock string, token, asked, at int64) event {
	return event{Kind: onEntered, Lock: lock, Token: token, Asked: asked, At: at}
}

func out(lock string, at int64) event { return event{Kind: onLeft, Lock: lock, At: at} }

func TestTheWitnessSeesWhoeverIsInTogether(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		events           []event
		overlaps, broken int
	}{
		"one after the other":  {[]event{in("x", 1, 0, 0), out("x", 1), in("x", 2, 0, 2), out("x", 3)}, 0, 0},
		"together":             {[]event{in("x", 1, 0, 0), in("x", 2, 0, 2), out("x", 3), out("x", 4)}, 1, 0},
		"three together":       {[]event{in("x", 1, 0, 0), in("x", 2, 0, 2), in("x", 3, 0, 3)}, 2, 0},
		"on different locks":   {[]event{in("x", 1, 0, 0), in("y", 1, 0, 2), out("x", 3), out("y", 4)}, 0, 0},
		"a clock going back":   {[]event{in("x", 1, 9, 9), out("x", 10), in("x", 2, 2, 3), out("x", 4)}, 0, 0},
		"the same token again": {[]event{in("x", 1, 0, 0), out("x", 1), in("x", 1, 0, 2), out("x", 3)}, 0, 1},
		"a smaller token":      {[]event{in("x", 2, 0, 0), out("x", 1), in("x", 1, 0, 2), out("x", 3)}, 0, 1},
	} {
		w := newWitness()
		for _, e := range test.events {
			w.see(e)
		}
		if w.overlaps != test.overlaps || len(w.broken) != test.broken {
			t.Errorf("%s: %d overlaps, broken: %q", what, w.overlaps, w.broken)
		}
	}
}

func TestAHandOverIsMeasuredOnlyIfTheNextOneWaited(t *testing.T) {
	t.Parallel()
	w := newWitness()
	for _, e := range []event{in("x", 1, 0, 0), out("x", 10), in("x", 2, 5, 13), out("x", 20), in("x", 3, 21, 22)} {
		w.see(e)
	}
	if len(w.handovers) != 1 || w.handovers[0] != 3 {
		t.Errorf("%v", w.handovers)
	}
}

func TestAnOrderCountsWhoeverComesTooLate(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		served     []string
		inversions int
	}{
		"in order":                 {[]string{"a", "b", "c"}, 0},
		"one is missing":           {[]string{"a", "c"}, 0},
		"two are exchanged":        {[]string{"b", "a", "c"}, 1},
		"the last first":           {[]string{"c", "a", "b"}, 2},
		"newcomers afterwards":     {[]string{"a", "b", "c", "y", "x"}, 0},
		"a newcomer in between":    {[]string{"a", "x", "b", "c"}, 2},
		"nobody was in line":       {nil, 0},
		"only newcomers were ever": {[]string{"x", "y"}, 0},
	} {
		o := newOrder([]string{"a", "b", "c"})
		for _, who := range test.served {
			o.serve(who)
		}
		if o.inversions != test.inversions {
			t.Errorf("%s: %d inversions", what, o.inversions)
		}
	}
}

func TestTheShopRefusesATokenOlderThanOneItHasSeen(t *testing.T) {
	t.Parallel()
	s := shop{stock: 3}
	for _, test := range []struct {
		token int64
		ok    bool
	}{{5, true}, {5, true}, {7, true}, {6, false}, {5, false}, {7, true}} {
		if s.sell(test.token, 0) != test.ok {
			t.Errorf("token %d", test.token)
		}
	}
	if s.sold != 4 || s.first != 5 {
		t.Errorf("%+v", s)
	}
}

func TestEveryBrokenPromiseIsInTheVerdict(t *testing.T) {
	t.Parallel()
	kept := func() *session {
		return &session{witness: newWitness(), report: report{recovered: time.Millisecond, sold: allPieces, buyers: allBuyers}}
	}
	if broken := kept().verdict(); len(broken) > 0 {
		t.Fatalf("%q", broken)
	}
	for what, spoil := range map[string]func(*session){
		"an inversion":         func(s *session) { s.witness.inversions = 1 },
		"an overlap":           func(s *session) { s.witness.overlaps = 1 },
		"a token":              func(s *session) { s.witness.breaks("token") },
		"too many sold":        func(s *session) { s.report.sold++ },
		"something left":       func(s *session) { s.report.stock++ },
		"a buyer without news": func(s *session) { s.report.buyers-- },
		"a slow recovery":      func(s *session) { s.report.recovered = 3 * time.Second },
		"no recovery":          func(s *session) { s.report.recovered = 0 },
	} {
		s := kept()
		spoil(s)
		if broken := s.verdict(); len(broken) != 1 {
			t.Errorf("%s: %q", what, broken)
		}
	}
}
