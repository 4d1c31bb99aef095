package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/server"
)

const (
	pings      = 50
	pingFor    = time.Second            // longer if the number of pings takes longer
	slowPing   = 500 * time.Millisecond // the median; a grant has to be confirmed within 3 s
	latePing   = 20 * time.Millisecond  // from here on, it limits the throughput of a lock
	farClock   = time.Second            // between the server's clock and ours
	stepMargin = 100 * time.Millisecond // a clock may be off by this much without having stepped
)

// latency measures how long the server takes to answer.
func (p *patient) latency(ctx context.Context) finding {
	took, err := p.pings(ctx, pings)
	if err != nil {
		return finding{Status: wrong, Found: fmt.Sprintf("after %d answers: %v", len(took), err), Do: remedy(err)}
	}
	median, worst := output.Percentile(took, 0.5), slices.Max(took)
	f := finding{
		Status: good, Found: fmt.Sprintf("%s, the slowest of %d %s", output.Milliseconds(median), len(took), output.Milliseconds(worst)),
		Figures: map[string]int64{"median_us": median.Microseconds(), "worst_us": worst.Microseconds()},
	}
	switch {
	case median > slowPing || worst > server.Timeout/2:
		f.Status, f.Do = wrong, "look at the network, at SLOWLOG and at the server's CPU: a waiter has 3 s to confirm a grant, and renewals go out at a third of the lease, or after 50 s if that is sooner"
	case median > latePing:
		f.Status, f.Do = note, "a lock changes hands at most every round trip or so; keep clients near the server, and the lease far above this"
	}
	return f
}

// pings measures n round trips, or as many as fit in pingFor.
func (p *patient) pings(ctx context.Context, n int) (took []time.Duration, err error) {
	for began := time.Now(); len(took) < n && time.Since(began) < pingFor; {
		sent := time.Now()
		if err := p.rdb.Ping(ctx).Err(); err != nil {
			return took, err
		}
		took = append(took, time.Since(sent))
	}
	return took, nil
}

// roundTrip is the shortest of a few; 0 if there is no answer.
func (p *patient) roundTrip(ctx context.Context) time.Duration {
	trips, err := p.pings(ctx, 3)
	if err != nil {
		return 0
	}
	return slices.Min(trips)
}

// clockReading has the server's clock and ours at one instant, to within half a round trip.
type clockReading struct {
	server, local time.Time
	within        time.Duration
}

// readClock asks the server for its time. It returns nil if the server does not tell.
func readClock(ctx context.Context, rdb redis.UniversalClient) *clockReading {
	sent := time.Now()
	server, err := rdb.Time(ctx).Result()
	if err != nil {
		return nil
	}
	took := time.Since(sent)
	return &clockReading{server, sent.Add(took / 2), took / 2}
}

// clocks compares the server's clock with ours. It also compares how far both moved during the
// other checks; for that it uses the monotonic clock of time.Now, not the wall clock.
func (p *patient) clocks(ctx context.Context) finding {
	first, last := p.clock, readClock(ctx, p.rdb)
	if first == nil || last == nil {
		return finding{Status: note, Found: "not known: TIME is refused", Do: "allow +time: the scripts need it"}
	}
	offset := last.server.Sub(last.local.Round(0))
	drift := last.server.Sub(first.server) - last.local.Sub(first.local)
	f := finding{
		Status: good, Found: fmt.Sprintf("%s from this machine's, which no lock depends on", apart(offset)),
		Figures: map[string]int64{"offset_us": offset.Microseconds(), "drift_us": drift.Microseconds()},
	}
	switch {
	case drift.Abs() > first.within+last.within+stepMargin+last.local.Sub(first.local)/10:
		f.Status = wrong
		f.Found = fmt.Sprintf("the server's clock went %v wrong within %v: it was set, or a machine stood still", drift.Round(time.Millisecond), last.local.Sub(first.local).Round(time.Millisecond))
		f.Do = "have NTP slew the clock instead of stepping it (chrony: no makestep once it runs): leases are as long as that clock says"
	case offset.Abs() > farClock+last.within:
		f.Status = note
		f.Do = "run NTP on both: the times that fairlock shows are the server's"
	}
	return f
}

// apart formats an offset for people.
func apart(offset time.Duration) string {
	if offset.Abs() < time.Millisecond {
		return "less than 1 ms"
	}
	if offset.Abs() < 10*time.Second {
		return fmt.Sprintf("%d ms", offset.Abs().Milliseconds())
	}
	return offset.Abs().Round(time.Second).String()
}
