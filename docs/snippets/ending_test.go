package snippets_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
)

func TestAProcessThatIsToldToEndLetsItsHolderFinish(t *testing.T) {
	locker := fairlock.New(embeddedClient(t))
	unlocked := make(chan error, 1)
	work := func(ctx context.Context, locker *fairlock.Locker) {
		lease := take(t, locker, "x")
		self, err := os.FindProcess(os.Getpid())
		must(t, err)
		must(t, self.Signal(syscall.SIGTERM))
		<-ctx.Done()
		go func() {
			// A Shutdown that does not wait ends the Lease meanwhile.
			time.Sleep(50 * time.Millisecond)
			unlocked <- errors.Join(lease.Err(), lease.Unlock(t.Context()))
		}()
	}
	ends := func() error {
		//guide:operations.md
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		work(ctx, locker)

		bounded, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := locker.Shutdown(bounded); err != nil {
			return err // something was still held when the time was up
		}
		//guide:end
		return nil
	}
	must(t, ends())
	must(t, <-unlocked)
}
