// The suite runs on the embedded server in fake time, on a real one, and over TLS. test/topologies
// runs it on clusters and behind sentinels.
package conformance_test

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
