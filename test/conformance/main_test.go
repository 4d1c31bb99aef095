// The suite on the embedded server in fake time, on a real one, and over TLS. Clusters and
// sentinels are in test/topologies.
package conformance_test

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
