package gocronlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/integrations/gocronlock"
	"github.com/fairlock/locks/test/world"
)

func TestTheReadme(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		locker := world.Host(t, addr)
		tokens := make(chan int64, 10)
		send := func(_ context.Context, token int64) error {
			tokens <- token
			return nil
		}
		byLocker := func() (gocron.Scheduler, error) {
			//guide:gocronlock.md
			locks, err := gocronlock.NewLocker(locker, time.Second) // how far the hosts' clocks may be apart
			if err != nil {
				return nil, err
			}
			s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
			if err != nil {
				return nil, err
			}
			_, err = s.NewJob(gocron.CronJob("0 7 * * *", false), gocron.NewTask(func(ctx context.Context) error {
				lease := locks.Lease("invoices")
				ctx, cancel := gocronlock.WithLease(ctx, lease) // ends when the lock is lost, too
				defer cancel()
				return send(ctx, lease.Token())
			}), gocron.WithName("invoices")) // the lock's name
			//guide:end
			return s, err
		}
		byElector := func(ctx context.Context, locker fairlock.Interface) (gocron.Scheduler, *gocronlock.Elector, error) {
			//guide:gocronlock.md
			elector, err := gocronlock.NewElector(locker, "scheduler")
			if err != nil {
				return nil, nil, err
			}
			select {
			case <-elector.Ready(): // it leads, is in line, or stands no more, as the log says
			case <-ctx.Done(): // the Redis is away for too long
				return nil, nil, errors.Join(context.Cause(ctx), elector.Close())
			}
			s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
			//guide:end
			return s, elector, err
		}
		s, err := byLocker()
		world.Must(t, err)
		s.Start()
		world.Must(t, s.Jobs()[0].RunNow())
		if token := <-tokens; token == 0 {
			t.Error("the job ran without a lock")
		}
		world.Must(t, s.Shutdown())
		s, e, err := byElector(t.Context(), locker)
		world.Must(t, err)
		defer e.Close()
		_, err = s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(send, t.Context(), e.Lease().Token()),
			gocron.WithStartAt(gocron.WithStartImmediately()))
		world.Must(t, err)
		s.Start()
		if token := <-tokens; token == 0 {
			t.Error("the leader has no token")
		}
		world.Must(t, s.Shutdown())

		away := world.Host(t, "127.0.0.1:1")
		over := errors.New("over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, over)
		defer cancel()
		if _, _, err := byElector(ctx, away); !errors.Is(err, over) {
			t.Errorf("a start while the Redis is away: %v", err)
		}
	})
}
