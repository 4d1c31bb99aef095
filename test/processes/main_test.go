// Package processes is about locks whose users are processes: they are killed and stopped, share a
// lock as one owner, and are served in order.
package processes

import (
	"testing"

	"github.com/fairlock/locks/test/workers"
	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) {
	workers.Play(gatherers, gather)
	world.Main(m)
}
