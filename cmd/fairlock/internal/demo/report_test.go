package demo

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheDemoTellsItsResultsAsJSON(t *testing.T) {
	t.Parallel()
	s := &session{witness: newWitness()}
	var lines, object strings.Builder
	s.values(&lines)
	s.object(&object)
	for line := range strings.Lines(lines.String()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if want := fmt.Sprintf("%q:%s", key, value); !strings.Contains(object.String(), want) {
			t.Errorf("no %s in %s", want, &object)
		}
	}
}
