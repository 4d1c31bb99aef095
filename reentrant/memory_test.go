package reentrant

import (
	"testing"
	"time"
)

func TestMemoryForgetsAfterAMinuteOrTwoAndNotBefore(t *testing.T) {
	var m Memory
	m.Note("a", 4, time.Hour)
	m.Note("a", 5, time.Minute)
	m.Note("a", 5, time.Second)
	m.Note("a", 3, time.Hour)
	if token, lease := m.Recall("a"); token != 5 || lease != time.Minute {
		t.Fatalf("recalls %d and %v, want the largest token and the longest lease with it", token, lease)
	}
	m.turned = m.turned.Add(-remember - time.Second)
	m.Note("b", 1, 1)
	if token, lease := m.Recall("a"); token != 5 || lease != time.Minute {
		t.Fatalf("recalls %d and %v after a turn", token, lease)
	}
	m.turned = m.turned.Add(-remember - time.Second)
	m.Note("b", 2, 1)
	a, lease := m.Recall("a")
	if b, _ := m.Recall("b"); a != 0 || lease != 0 || b != 2 {
		t.Fatalf("recalls %d, %v and %d after two turns", a, lease, b)
	}
	m.turned = m.turned.Add(-time.Hour)
	if b, lease := m.Recall("b"); b != 0 || lease != 0 {
		t.Fatalf("recalls %d and %v after an hour", b, lease)
	}
}
