// Command majority measures locks that a majority of servers keeps, beside one server: package
// quorum on three and five nodes, and redsync as it is and with WithFailFast.
//
//	go run ./majority -delay 1ms -trouble killed
//
// Each table row is one contestant. All share one process, which has a client for each server and
// each of its Lockers. Servers and links are new for each row.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // go-redis logs that servers are gone; here that is intended
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "majority:", err)
		os.Exit(1)
	}
}

func run() error {
	var s scale
	delay := flag.Duration("delay", 0, "of every byte, in each direction")
	trouble := flag.String("trouble", "none", "one of the nodes is `killed` or stopped, just before it is measured")
	flag.DurationVar(&s.lasts, "for", 3*time.Second, "how long each is measured")
	flag.IntVar(&s.waiters, "waiters", 8, "that contend for one lock, in four Lockers")
	flag.DurationVar(&s.holds, "hold", 5*time.Millisecond, "how long each holds the lock")
	only := flag.String("only", "", "`names` of contestants, by commas; all")
	repeats := flag.Int("repeats", 1, "how often each is measured, in turn; the medians are shown")
	alone := flag.Bool("pairs", false, "measure only the client's CPU of a pair, of all contestants in turn")
	flag.Parse()
	some := slices.DeleteFunc(slices.Clone(contestants), func(c contestant) bool {
		return *only != "" && !slices.Contains(strings.Split(*only, ","), c.name) || c.nodes == 1 && *trouble != "none"
	})
	if *alone {
		return alternate(context.Background(), some, *delay, s.lasts)
	}
	fmt.Printf("delay %v each way, node %s, %d waiters, each holds for %v\n\n", *delay, *trouble, s.waiters, s.holds)
	columns := []string{
		"", "pair p50 us", "p99", "client CPU us", "requests", "gap p50 us", "p99", "turns/s", "requests",
		"turns each", "longest wait ms", "later first", "overlaps", "falling tokens",
	}
	fmt.Printf("|%s|\n|%s\n", strings.Join(columns, "|"), strings.Repeat("---|", len(columns)))
	rows := make(map[string][]row)
	for range *repeats {
		for _, c := range some {
			r, err := measure(context.Background(), c, *delay, *trouble, s)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rows[c.name] = append(rows[c.name], r)
		}
	}
	for _, c := range some {
		fmt.Printf("|%s|%s|\n", c.name, median(rows[c.name]))
	}
	return nil
}

type scale struct {
	lasts   time.Duration
	waiters int
	holds   time.Duration
}

// measure gives one contestant its nodes, and its turn.
func measure(ctx context.Context, c contestant, delay time.Duration, trouble string, s scale) (r row, err error) {
	n, err := start(c.nodes, delay)
	if err != nil {
		return r, err
	}
	defer n.end()
	lockers, err := n.lockers(ctx, c, 4)
	if err != nil {
		return r, err
	}
	for _, l := range lockers { // warms up: each has met all nodes before one suffers
		if _, err := pairs(ctx, l, s.lasts/10, new(row), n); err != nil {
			return r, err
		}
	}
	if err := n.suffer(trouble); err != nil {
		return r, err
	}
	if _, err := pairs(ctx, lockers[0], s.lasts, &r, n); err != nil {
		return r, err
	}
	err = contend(ctx, lockers, s, &r, n)
	return r, err
}
