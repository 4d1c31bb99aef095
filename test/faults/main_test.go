// Package faults breaks one thing at a time, at the worst moment: answers are lost, requests come
// late, connections are cut, servers die, forget, fill up and refuse.
package faults

import (
	"testing"

	"github.com/fairlock/locks/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }
