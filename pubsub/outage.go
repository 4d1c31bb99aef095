package pubsub

import (
	"log/slog"
	"time"
)

// sayEvery is how often at most a subscription that is lost, or lost again and again, is worth a
// line of the log.
const sayEvery = time.Minute

// outage tells of a subscription that is lost, and when it is back. Only run uses it.
type outage struct {
	log   *slog.Logger
	since time.Time // zero: there is none
	said  time.Time // when it was last told of one
	quiet int       // connections that failed since then
	told  bool      // of the present one
}

// goesOn takes in that a connection failed: the first one, or one more while there is none.
func (o *outage) goesOn(err error) {
	now := time.Now()
	if o.since.IsZero() {
		o.since = now
	}
	if !o.said.IsZero() && now.Sub(o.said) < sayEvery {
		o.quiet++
		return
	}
	o.log.Warn("fairlock: subscription lost, making it again", "error", err, "away", now.Sub(o.since), "failed", o.quiet)
	o.said, o.quiet, o.told = now, 0, true
}

// over takes in that there is a connection.
func (o *outage) over() {
	if o.told {
		o.log.Info("fairlock: subscription is back", "away", time.Since(o.since))
	}
	o.since, o.told = time.Time{}, false
}
