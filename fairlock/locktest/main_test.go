package locktest_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable() // servers go away here all the time
	goleak.VerifyTestMain(m)
}
