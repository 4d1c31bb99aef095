package snippets_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tested has a server of the table of docs/compatibility.md, on which all passed: its name, and its
// version without the last part.
var tested = regexp.MustCompile(`(?m)^\| (\w+) (\d+\.\d+)\.\d+ \| passed `)

func TestTheREADMENamesTheServersThatWereTriedAndNoOthers(t *testing.T) {
	pages := guides(t)
	versions := make(map[string][]string)
	var names []string
	for _, row := range tested.FindAllStringSubmatch(pages["compatibility.md"], -1) {
		if !slices.Contains(names, row[1]) {
			names = append(names, row[1])
		}
		versions[row[1]] = append(versions[row[1]], row[2])
	}
	var all []string
	for _, name := range names {
		v := versions[name]
		last := len(v) - 1
		text := v[last]
		if last > 0 {
			text = strings.Join(v[:last], ", ") + " and " + text
		}
		all = append(all, name+" "+text)
	}
	want := "which servers were tried: " + strings.Join(all, ", ")
	if said := strings.Join(strings.Fields(pages["readme.md"]), " "); !strings.Contains(said, want) {
		t.Errorf("README.md does not say %q", want)
	}
}
