package fairlock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/locks/internal/workers"
)

func TestMain(m *testing.M) {
	workers.Main() // if this process was started as one
	goleak.VerifyTestMain(m)
}
