package stage

import (
	"fmt"
	"slices"
	"strings"
)

// In replaces texts in the script of one verb, or of all verbs that have them. The texts come in
// pairs: old, new.
func In(verb string, texts ...string) func(string, string) string {
	return func(v, source string) string {
		if verb != "" && v != verb {
			return source
		}
		for pair := range slices.Chunk(texts, 2) {
			if verb != "" && !strings.Contains(source, pair[0]) {
				panic(fmt.Sprintf("%s does not say %q any more", verb, pair[0]))
			}
			source = strings.ReplaceAll(source, pair[0], pair[1])
		}
		return source
	}
}
