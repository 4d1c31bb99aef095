// Package topologies is about servers that are several, or that are not reached plainly: clusters,
// sentinels, replicas, TLS, changing passwords, and what clients look like to the library.
package topologies

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
