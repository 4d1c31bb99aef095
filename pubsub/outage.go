package pubsub

import (
	"log/slog"
	"time"

	"github.com/fairlock/locks/internal/redact"
)

// sayEvery is the shortest time between two lines of the log about lost subscriptions, even if the
// subscription is lost again and again.
const sayEvery = time.Minute

// outage logs that the subscription is lost, and when it is back. Only run uses it.
type outage struct {
	log   *slog.Logger
	since time.Time // when the present outage began; zero: there is none
	said  time.Time // when an outage was last logged
	quiet int       // connections that failed since then
	told  bool      // the present outage was logged
}

// goesOn notes that a connection failed: a working one, or a further attempt to replace it.
func (o *outage) goesOn(err error) {
	now := time.Now()
	if o.since.IsZero() {
		o.since = now
	}
	if !o.said.IsZero() && now.Sub(o.said) < sayEvery {
		o.quiet++
		return
	}
	o.log.Warn("fairlock: subscription lost, making it again", "error", redact.Error(err), "away", now.Sub(o.since), "failed", o.quiet)
	o.said, o.quiet, o.told = now, 0, true
}

// over notes that a connection works again.
func (o *outage) over() {
	if o.told {
		o.log.Info("fairlock: subscription is back", "away", time.Since(o.since))
	}
	o.since, o.told = time.Time{}, false
}
