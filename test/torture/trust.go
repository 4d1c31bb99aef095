package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// byLock sorts leases by lock and by the beginning of their trust.
func byLock(leases []*call) map[string][]*call {
	all := make(map[string][]*call)
	for _, c := range leases {
		all[c.lock] = append(all[c.lock], c)
	}
	for _, of := range all {
		slices.SortFunc(of, func(a, b *call) int { return cmp.Compare(a.trusts(), b.trusts()) })
	}
	return all
}

// overlaps lists the pairs of owners that trusted one lock at one time. allowed are the pairs
// around a loss of data: the first to come after the loss may get a lock that another owner trusts
// for the rest of its lease.
func overlaps(leases []*call, losses []loss) (wrong, allowed []string) {
	for _, of := range byLock(leases) {
		var present []*call
		for _, c := range of {
			present = slices.DeleteFunc(present, func(p *call) bool { return p.trusted() <= c.trusts() })
			for _, p := range present {
				switch end := min(p.trusted(), c.trusted()); {
				case p.owner == c.owner || end <= c.trusts(), c.follows(p) && end <= c.ended, p.follows(c) && end <= p.ended:
				case parted(p, c, end, losses):
					allowed = append(allowed, fmt.Sprintf("%v and %v", p, c))
				default:
					wrong = append(wrong, fmt.Sprintf("%v and %v", p, c))
				}
			}
			present = append(present, c)
		}
	}
	return wrong, allowed
}

// follows reports whether c may have had its turn on p's hold: after p, though the token tells when
// the lock was given to both.
func (c *call) follows(p *call) bool {
	return c.life == p.life && p.token < c.token && c.token <= p.token+max(lua.MaxRun, rules.PlainTurns)
}

// parted reports whether data was lost between two grants. The loss must be no longer than a lease
// before the end of their overlap.
func parted(before, after *call, end int64, losses []loss) bool {
	return slices.ContainsFunc(losses, func(l loss) bool {
		return before.trusts() < l.To && l.From < after.ended && end <= l.To+leaseOf(before.lock).Nanoseconds()
	})
}

// refusedFresh lists refused writes of owners that trusted the lock. Each was refused because the
// resource had seen a larger token.
func refusedFresh(all []barred, losses []loss) []string {
	var wrong []string
	for _, b := range all {
		lost := func(l loss) bool {
			return b.by.trusts() < l.To && l.From < b.at && b.at <= l.To+leaseOf(b.by.lock).Nanoseconds()
		}
		if !slices.ContainsFunc(losses, lost) {
			wrong = append(wrong, fmt.Sprintf("%v was refused although it was trusted, at %s", b.by, clock(b.at)))
		}
	}
	return wrong
}

// disorder lists the tokens that are not larger than an earlier token.
func disorder(leases []*call) []string {
	var wrong []string
	for _, of := range byLock(leases) {
		wrong = append(wrong, disorderOf(of)...)
	}
	return wrong
}

func disorderOf(of []*call) []string {
	var wrong []string
	var first []*call // of each ownership; later holders join it and have its token
	owner := make(map[int64]string)
	for _, c := range of {
		other, known := owner[c.token]
		if known && other != c.owner {
			wrong = append(wrong, fmt.Sprintf("%v has the token of %s", c, other))
		}
		if !known {
			owner[c.token] = c.owner
			first = append(first, c)
		}
	}
	ended := slices.SortedFunc(slices.Values(first), func(a, b *call) int { return cmp.Compare(a.ended, b.ended) })
	slices.SortFunc(first, func(a, b *call) int { return cmp.Compare(a.began, b.began) })
	var before *call // the call with the largest token of those that had returned
	for _, c := range first {
		for ; len(ended) > 0 && ended[0].ended < c.began; ended = ended[1:] {
			if before == nil || ended[0].token > before.token {
				before = ended[0]
			}
		}
		if before != nil && c.token < before.token {
			wrong = append(wrong, fmt.Sprintf("%v came after %v", c, before))
		}
	}
	return wrong
}

// unclean lists the Unlocks that reported success although the lease had been lost before.
func unclean(leases []*call) []string {
	var wrong []string
	for _, c := range leases {
		// A closed Locker's hold counts as trusted: it is released like any other.
		if c.released != 0 && c.outcome == "" && !c.sure && c.doubt != whyClosed {
			wrong = append(wrong, fmt.Sprintf("%v was unlocked without an error at %s", c, clock(c.given)))
		}
	}
	return wrong
}

// clock shows a time as messages do.
func clock(at int64) string {
	if at == 0 {
		return "never"
	}
	return time.Unix(0, at).UTC().Format("15:04:05.000000")
}
