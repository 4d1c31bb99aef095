package torture

import (
	"flag"
	"testing"
	"time"
)

var (
	session = flag.Duration("majority", 30*time.Second, "how long the workers of a quorum are tortured")
	members = flag.Int("nodes", 3, "of the quorum")
)

func TestWhateverIsDoneToItsNodesNoTwoHaveALockOfAMajorityAndNobodyIsForgotten(t *testing.T) {
	dir := journals(t)
	began := time.Now()
	t.Logf("seed %d", *seed)
	s := newSenate(t, *members, *seed, dir)
	r := &rebel{senate: s, deck: deck[*rebel]{all: coups, counts: make(map[string]int)}}
	m := &minutes{rebel: r, table: table{tb: t}, watch: watchNodes(s.nodes)}
	r.rage(began.Add(*session*5/6), r.strike)
	m.lasted = time.Since(began)
	m.finish()
	m.judge()
	t.Logf("tortured for %v\n%v", time.Since(began).Round(time.Second), m)
}
