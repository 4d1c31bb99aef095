package batch

import (
	"slices"
	"testing"
)

func TestWhoFindsNobodyUnderWayGoesAlone(t *testing.T) {
	var r Batcher[int]
	for i := range 3 {
		if b, sends := r.Begin(i, true, false, 10); b != nil || !sends {
			t.Error("it shares a request with nobody")
		}
		if !r.End() {
			t.Error("something is under way")
		}
	}
}

func TestThoseWhoComeWhileOthersAreUnderWayShareARequestInTheirOrder(t *testing.T) {
	var r Batcher[int]
	r.Begin(0, true, false, 10)
	first, sends := r.Begin(1, true, false, 10)
	if first == nil || !sends {
		t.Fatal("the second has nobody to share with, or to send for")
	}
	for i := range 3 {
		if b, sends := r.Begin(i+2, true, false, 10); b != first || sends {
			t.Error("it does not share the open request")
		}
	}
	if b, sends := r.Begin(9, false, false, 10); b != nil || !sends {
		t.Error("one that does not share shares")
	}
	if got := r.Close(first); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("together went %v", got)
	}
	next, sends := r.Begin(5, true, false, 10)
	if next == nil || next == first || !sends {
		t.Error("one that comes after is taken along")
	}
	r.Close(first) // first is closed already; this closes no other batch
	if b, _ := r.Begin(6, true, false, 10); b != next {
		t.Error("the next request was closed with the one before")
	}
	for range 3 {
		if r.End() {
			t.Error("one is still under way")
		}
	}
	if !r.End() {
		t.Error("none is under way")
	}
}

func TestARequestIsOfNoMoreThanTheMost(t *testing.T) {
	var r Batcher[int]
	r.Begin(0, true, false, 3)
	sent := 0
	for i := range 9 {
		if _, sends := r.Begin(i, true, false, 3); sends {
			sent++
		}
	}
	if sent != 3 {
		t.Errorf("9 went as %d requests of 3 at most", sent)
	}
}
