package main

import (
	"context"
	"fmt"
	"time"
)

// slice is how long a contestant is measured before the next has its turn: a machine that slows
// down then does so for all.
const slice = 50 * time.Millisecond

// alternate measures only what a pair costs the client, of all contestants at the same time, in
// turn. A ratio is to redsync on as many nodes.
func alternate(ctx context.Context, all []contestant, delay, lasts time.Duration) error {
	type one struct {
		locker
		*nodes
		cpu, pairs float64
	}
	ones := make([]one, 0, len(all))
	defer func() {
		for _, o := range ones {
			o.end()
		}
	}()
	for _, c := range all {
		n, err := start(c.nodes, delay)
		if err != nil {
			return err
		}
		ones = append(ones, one{nodes: n})
		lockers, err := n.lockers(ctx, c, 1)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		ones[len(ones)-1].locker = lockers[0]
	}
	warm := lasts / 10
	for spent := -warm; spent < lasts; spent += slice {
		for i := range ones {
			o, r := &ones[i], new(row)
			count, err := pairs(ctx, o.locker, slice, r, o.nodes)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
			if spent >= 0 {
				o.cpu, o.pairs = o.cpu+r.cpu*float64(count), o.pairs+float64(count)
			}
		}
	}
	us := func(o *one) float64 { return o.cpu / o.pairs }
	fmt.Printf("||client CPU us|of redsync's|\n|---|---|---|\n")
	for i, c := range all {
		ratio := ""
		for k, other := range all {
			if other.name == fmt.Sprint("redsync on ", c.nodes) {
				ratio = fmt.Sprintf("%.2f", us(&ones[i])/us(&ones[k]))
			}
		}
		fmt.Printf("|%s|%.0f|%s|\n", c.name, us(&ones[i]), ratio)
	}
	return nil
}
