package simulate

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells of every failed dial
	os.Exit(m.Run())
}
