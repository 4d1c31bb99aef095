package reentrant

import (
	"testing"
	"time"
)

func TestMemoryForgetsAfterAMinuteOrTwoAndNotBefore(t *testing.T) {
	var m Memory
	m.Note("a", 5)
	m.Note("a", 3)
	if got := m.Recall("a"); got != 5 {
		t.Fatalf("recalls %d, want the largest", got)
	}
	m.turned = m.turned.Add(-remember - time.Second)
	m.Note("b", 1)
	if got := m.Recall("a"); got != 5 {
		t.Fatalf("recalls %d after a turn", got)
	}
	m.turned = m.turned.Add(-remember - time.Second)
	m.Note("b", 2)
	if a, b := m.Recall("a"), m.Recall("b"); a != 0 || b != 2 {
		t.Fatalf("recalls %d and %d after two turns", a, b)
	}
	m.turned = m.turned.Add(-time.Hour)
	if got := m.Recall("b"); got != 0 {
		t.Fatalf("recalls %d after an hour", got)
	}
}
