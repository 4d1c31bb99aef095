package cronlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/integrations/cronlock"
	"github.com/fairlock/locks/test/world"
)

func TestTheReadme(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		ctx, locker, logger, c := t.Context(), world.Host(t, addr), cron.DiscardLogger, cron.New()
		tokens := make(chan int64, 1)
		send := func(_ context.Context, token int64) { tokens <- token }
		build := func() error {
			//guide:cronlock.md
			once, err := cronlock.SkipIfRunningElsewhere(ctx, locker, "invoices",
				time.Second, // how far the hosts' clocks may be apart
				logger)
			if err != nil {
				return err
			}
			_, err = c.AddJob("0 7 * * *", cron.NewChain(once).Then(cronlock.Job(
				func(ctx context.Context, lease *fairlock.Lease) { // ctx ends when the lock is lost
					send(ctx, lease.Token())
				})))
			//guide:end
			return err
		}
		world.Must(t, build())
		c.Entries()[0].WrappedJob.Run()
		if <-tokens == 0 {
			t.Error("the job ran without a lock")
		}
	})
}
