package locks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
)

func TestAChangeIsUncertainIfANodeOfTheQuorumMayHaveMadeIt(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	silent := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	few := fmt.Errorf("1 of 3 nodes have ended it: %w", quorum.ErrUnreachable)
	for _, test := range []struct {
		err     error
		certain bool
	}{
		{&quorum.Error{Op: "force", Name: "x", Err: errors.Join(few, errors.Join(refused, silent))}, false},
		{&quorum.Error{Op: "force", Name: "x", Err: errors.Join(few, errors.Join(silent, refused))}, false},
		{&quorum.Error{Op: "force", Name: "x", Err: quorum.ErrNotHeld}, true},
		{&quorum.Error{Op: "evict", Name: "x", Err: quorum.ErrNotShown}, true},
		{&fairlock.Error{Op: "force", Name: "x", Err: refused}, true},
		{&fairlock.Error{Op: "force", Name: "x", Err: io.ErrUnexpectedEOF}, false},
		{&fairlock.Error{Op: "force", Name: "x", Err: context.DeadlineExceeded}, false},
	} {
		if got := Certain(test.err); got != test.certain {
			t.Errorf("%v: %t", test.err, got)
		}
	}
}
