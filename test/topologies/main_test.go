// Package topologies is about servers that are more than one, or are not reached plainly: clusters,
// sentinels, replicas, TLS, passwords that change, and what clients are taken for.
package topologies

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
