package pubsub

import (
	"log/slog"
	"time"

	"github.com/fairlock/locks/internal/redact"
)

// sayEvery is the shortest time between two lines of the log about lost subscriptions, even if the
// subscription is lost again and again.
const sayEvery = time.Minute

// outage logs that the subscription is lost, and when it is back; and that a channel is refused.
// Only run uses it.
type outage struct {
	log   *slog.Logger
	since time.Time // when the present outage began; zero: there is none
	said  time.Time // when an outage was last logged
	quiet int       // connections that failed since then
	told  bool      // the present outage was logged

	refusal     string    // the last one
	refusedAt   time.Time // when it first came
	refusalSaid time.Time // when one was last logged
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

// refused notes that the server refused a channel, while the connection serves the others. The error
// names all channels that are not confirmed yet. So it is logged when it is the same once more.
func (o *outage) refused(err error) {
	now, text := time.Now(), redact.Error(err).Error()
	if text != o.refusal {
		o.refusal, o.refusedAt = text, now
	}
	if now.Sub(o.refusedAt) >= maxBackoff/2 && (o.refusalSaid.IsZero() || now.Sub(o.refusalSaid) >= sayEvery) {
		o.log.Warn("fairlock: a subscription is refused", "error", text)
		o.refusalSaid = now
	}
}
