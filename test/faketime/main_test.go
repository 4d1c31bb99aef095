// Package faketime has Lockers live for minutes on the embedded server, in fake time, on networks
// that stop and lose bytes.
package faketime

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
