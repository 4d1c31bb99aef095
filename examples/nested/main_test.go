package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/examples/internal/stagetest"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { stagetest.Main(m, main) }

func TestWhoHoldsALockReentersItAndStrangersAreExcluded(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		checkNested(t, stagetest.Run(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		checkNested(t, stagetest.Run(t, "-redis", "redis://"+redistest.Start(t).Addr()))
	})
}

var (
	layerLine  = regexp.MustCompile(`(?m)^ +(Transfer|Withdraw|Book) +depth (\d) +token (\d+)$`)
	resultLine = regexp.MustCompile(`(?m)^  .* (re-enters|is excluded|takes it) *(?:depth \d)?$`)
)

func checkNested(t *testing.T, shown string) {
	t.Helper()
	layers := layerLine.FindAllStringSubmatch(shown, -1)
	if len(layers) != 3 {
		t.Fatalf("not three layers deep:\n%s", shown)
	}
	for i, layer := range layers {
		if layer[2] != "123"[i:i+1] || layer[3] != layers[0][3] {
			t.Errorf("%s is at depth %s with token %s", layer[1], layer[2], layer[3])
		}
	}
	var results []string
	for _, line := range resultLine.FindAllStringSubmatch(shown, -1) {
		results = append(results, line[1])
	}
	want := []string{
		reenters, reenters, reenters, excluded, excluded, excluded, // three layers deep
		reenters, reenters, takesIt, excluded, // two children
		excluded, reenters, reenters, // under a Lease of Lock
	}
	if !slices.Equal(results, want) {
		t.Errorf("results: %q", results)
	}
	if !strings.Contains(shown, "\naudit: three layers deep under one token; 7 more calls re-entered what was held, 5 strangers were excluded, and one waited its turn\n") {
		t.Error("there is no audit")
	}
	if t.Failed() {
		t.Log(shown)
	}
}
