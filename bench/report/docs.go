package report

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/fairlock/locks/bench/peers"
)

// Rewrite puts the tables into a document, each between its marks:
//
//	<!-- bench:pair -->
//	<!-- /bench -->
//
// plots is where the plots are, as seen from the document.
func (r *Results) Rewrite(document, plots string) error {
	text, err := os.ReadFile(document) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	rewritten, err := r.rewrite(string(text), plots)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(rewritten), 0o600)
}

func (r *Results) rewrite(text, plots string) (string, error) {
	var used strings.Builder
	for _, p := range peers.All() {
		if p.About != "" {
			fmt.Fprintf(&used, "- **%s**: %s.\n", p.Name, p.About)
		}
	}
	text, err := between(text, "peers", used.String())
	for _, t := range r.Tables {
		if err == nil {
			text, err = between(text, t.Workload, fmt.Sprintf("%s\n![%s](%s)\n", t.Markdown(), t.Title, path.Join(plots, t.Workload+".svg")))
		}
	}
	return text, err
}

// between puts content between the marks of that name.
func between(text, name, content string) (string, error) {
	open := "<!-- bench:" + name + " -->\n"
	before, rest, ok := strings.Cut(text, open)
	_, after, closed := strings.Cut(rest, "<!-- /bench -->")
	if !ok || !closed {
		return "", fmt.Errorf("it has no marks for %s", name)
	}
	return before + open + "\n" + content + "\n<!-- /bench -->" + after, nil
}
