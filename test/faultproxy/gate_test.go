package faultproxy

import (
	"testing"
	"testing/synctest"

	"github.com/fairlock/locks/test/bubbles"
)

func TestAFrozenGateLetsNothingPassUntilItThaws(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		var g gate
		passed := 0
		g.pass(nil, func() { passed++ })
		g.freeze(true)
		g.freeze(true) // twice is once
		go g.pass(nil, func() { passed++ })
		synctest.Wait()
		if passed != 1 {
			t.Fatalf("%d passed while it is frozen", passed)
		}
		g.freeze(false)
		g.freeze(false)
		synctest.Wait()
		if passed != 2 {
			t.Fatalf("%d passed after the thaw", passed)
		}
	})
}

func TestWhoGivesUpDoesNotMove(t *testing.T) {
	var g gate
	gone := make(chan struct{})
	close(gone)
	for _, frozen := range []bool{false, true} {
		g.freeze(frozen)
		if g.pass(gone, func() { t.Errorf("moved, frozen: %v", frozen) }) {
			t.Errorf("passed, frozen: %v", frozen)
		}
	}
}

func TestFreezeReturnsOnlyWhenNothingMovesAnyMore(t *testing.T) {
	var g gate
	begun, end, frozen := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go g.pass(nil, func() {
		close(begun)
		<-end
	})
	<-begun
	go func() {
		g.freeze(true)
		close(frozen)
	}()
	eventually(t, "freeze waits for the lock", func() bool {
		if !g.mu.TryRLock() {
			return true
		}
		g.mu.RUnlock()
		return false
	})
	if isClosed(frozen) {
		t.Fatal("frozen in the middle of a move")
	}
	close(end)
	<-frozen
}
