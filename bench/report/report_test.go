package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlock/locks/bench/workloads"
)

// aTable has one peer with three repeats, one whose run was given up, and one that cannot do the
// workload.
func aTable() Table {
	return Table{
		Workload: "pair", Title: "A pair", About: "What it is.", Scale: "tiny", Repeats: 3, Machine: "A machine", Versions: "go1",
		Columns: []workloads.Column{{Key: "p50", Head: "p50 us"}, {Key: "n", Head: "requests"}}, Plot: "p50",
		Rows: []Row{
			{Case: "5 pairs", Peer: "a", Values: Over([]workloads.Sample{{"p50": 90, "n": 2}, {"p50": 100, "n": 2}, {"p50": 104, "n": 2}})},
			{Case: "5 pairs", Peer: "b", Values: Over([]workloads.Sample{{"p50": 5000, workloads.Capped("p50"): 1}}), Floor: true},
			{Case: "5 pairs", Peer: "c", Why: "it cannot"},
		},
		Goals: []workloads.Goal{{Text: "fast", Value: 0.5, Known: true, Met: true}, {Text: "small"}},
	}
}

func TestATableSaysAllThatBelongsToIt(t *testing.T) {
	table := aTable()
	text := table.Markdown()
	for _, want := range []string{
		"What it is.", "A machine", "go1", "3 repeats", "n: 5 pairs",
		"| a    | 100 ±10% |     2.00 |", "| *b*  |  > 5,000 |        - |", "| c    |    - [1] |        - |", "1. it cannot",
		"| fast |     0.50 |          yes |", "| small |        - | not measured |",
	} {
		if !strings.Contains(strings.ReplaceAll(text, "fast  |", "fast |"), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestATablesOwnSectionOfADocumentIsWrittenAgainAndNothingElse(t *testing.T) {
	document := filepath.Join(t.TempDir(), "page.md")
	text := "before\n<!-- bench:peers -->\n<!-- /bench -->\nbetween\n<!-- bench:pair -->\nwritten earlier\n<!-- /bench -->\nafter\n"
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	results := Results{Tables: []Table{aTable()}}
	var written [2]string
	for i := range written {
		if err := results.Rewrite(document, "plots"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		written[i] = string(got)
	}
	got := written[0]
	if got != written[1] {
		t.Error("the second time it is another")
	}
	if !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "-->\nafter\n") || strings.Contains(got, "written earlier") ||
		!strings.Contains(got, "\nbetween\n") || !strings.Contains(got, "![A pair](plots/pair.svg)") || !strings.Contains(got, "**redsync**") {
		t.Error(got)
	}
	results.Tables[0].Workload = "unknown"
	if err := results.Rewrite(document, "plots"); err == nil {
		t.Error("a table without a section is lost silently")
	}
}

func TestResultsAreKeptAndAWorkloadsLatestTableCounts(t *testing.T) {
	dir := t.TempDir()
	var results Results
	results.Put(aTable())
	later := aTable()
	later.Machine = "Another"
	results.Put(later)
	if err := results.Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(dir)
	if err != nil || len(loaded.Tables) != 1 || loaded.Tables[0].Machine != "Another" {
		t.Errorf("%+v, %v", loaded, err)
	}
	if v, ok := loaded.Tables[0].Find("a", "", "p50"); !ok || v != 100 {
		t.Errorf("a's median is %v, %v", v, ok)
	}
	if _, ok := loaded.Tables[0].Find("c", "", "p50"); ok {
		t.Error("there is a figure of what was not measured")
	}
}

func TestPlotsAreDrawnOfOneCaseAndOfMany(t *testing.T) {
	dir := t.TempDir()
	table := aTable()
	for _, name := range []string{"one", "many"} {
		table.Workload = name
		if err := table.Draw(dir); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil || !strings.Contains(string(svg), "<svg") {
			t.Errorf("%s: %v", name, err)
		}
		more := aTable().Rows
		for i := range more {
			more[i].Case = "500 pairs"
		}
		table.Rows, table.Log = append(table.Rows, more...), true
	}
}

func TestNumbersHaveThreeDigitsThatCount(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0012: "0.0012", 0.5: "0.50", 9.994: "9.99", 12.34: "12.3", 999.4: "999", 1234567: "1,234,567", -1234.5: "-1,234", -2.85: "-2.85",
	} {
		if got := digits(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
