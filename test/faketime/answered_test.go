package faketime

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// The call is given up, and its leave is repeated in vain for long before the network is back.
func TestALockThatWasTakenByAnUnansweredCallIsGivenBackAfterAnOutageHoweverLongItsLease(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, network := s.client()
		b, _ := s.client()
		s.unlock(s.lock(a))
		network.loseReplies()
		ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
		defer cancel()
		if lease, err := a.Lock(ctx, "x", fairlock.LeaseFor(time.Hour)); err == nil {
			s.Fatal("it has a lease of", lease.Deadline())
		}
		network.stop()
		time.Sleep(10 * time.Minute)
		if s.tries(b) == "" {
			s.Error("nobody has it")
		}
		network.resume()
		time.Sleep(6 * time.Second) // after so long a wait, leaves are repeated every five seconds
		began := time.Now()
		s.unlock(s.lock(b))
		if took := time.Since(began); took > time.Second {
			s.Errorf("it was had %v later", took)
		}
	})
}

// The first request is lost, and the second is held up until the lease is over.
func TestAReleaseThatIsAnsweredOnlyAfterTheLeaseIsNotReportedAsACleanOne(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, network := s.client(fairlock.WithLease(7 * time.Second))
		lease := s.lock(a)
		network.loseRequests()
		ended := make(chan error, 1)
		go func() { ended <- lease.Unlock(s.Context()) }()
		time.Sleep(4900 * time.Millisecond)
		network.resume()
		network.stop()
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Unlock says %v", err)
		}
		time.Sleep(4 * time.Second)
		network.resume()
		if err := lease.Unlock(s.Context()); !errors.Is(err, fairlock.ErrLost) {
			s.Errorf("the lease was over when the server answered, and Unlock says %v", err)
		}
	})
}
