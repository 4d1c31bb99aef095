package snippets_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

func TestEveryLinkOfTheGuidesLeadsSomewhere(t *testing.T) {
	if _, err := os.Stat("../../examples"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("there are no examples to lead to")
	}
	pages := guides(t)
	for name, page := range pages {
		dir := ".."
		if name == "readme.md" {
			dir = "../.."
		} else if extra := "../../integrations/" + strings.TrimSuffix(name, ".md"); isDir(extra) {
			dir = extra
		}
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(page, -1) {
			target, section, _ := strings.Cut(link[1], "#")
			if strings.HasPrefix(target, "https:") || strings.HasPrefix(target, "performance/") { // which make bench writes
				continue
			}
			if _, err := os.Stat(path.Join(dir, target)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if in := pages[strings.ToLower(path.Base(target))]; section != "" && target != "" && !hasSection(in, section) {
				t.Errorf("%s: %s has no section %q", name, target, section)
			}
			if target == "" && !hasSection(page, section) {
				t.Errorf("%s: there is no section %q", name, section)
			}
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// hasSection reports whether a page has a heading to which a link with this fragment leads.
func hasSection(page, fragment string) bool {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		if strings.ReplaceAll(name, " ", "-") == fragment {
			return true
		}
	}
	return false
}
