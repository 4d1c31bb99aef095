// Package report makes tables, plots and documents of measurements.
package report

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/fairlock/locks/bench/workloads"
)

// Results is the content of results.json: the latest table of each workload.
type Results struct {
	Tables []Table `json:"tables"`
}

// Table is one workload, measured for all its peers on one machine in one run.
type Table struct {
	Workload string             `json:"workload"`
	Title    string             `json:"title"`
	About    string             `json:"about"`
	Scale    string             `json:"scale"`
	Repeats  int                `json:"repeats"`
	Machine  string             `json:"machine"`
	Versions string             `json:"versions"`
	Columns  []workloads.Column `json:"columns"`
	Plot     string             `json:"plot"`
	Log      bool               `json:"log"`
	Rows     []Row              `json:"rows"`
	Goals    []workloads.Goal   `json:"goals"`
}

// Row is one peer in one case.
type Row struct {
	Case   string          `json:"case"`
	Peer   string          `json:"peer"`
	Floor  bool            `json:"floor,omitempty"`
	Values map[string]Stat `json:"values,omitempty"` // by the key of the column
	Why    string          `json:"why,omitempty"`    // why there are no values
}

// Stat is one figure over all repeats.
type Stat struct {
	Median float64   `json:"median"`
	Each   []float64 `json:"each"`
	Capped bool      `json:"capped,omitempty"` // the run did not wait for it any longer
}

// Spread returns the largest distance of a repeat from the median, as a part of the median.
func (s Stat) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return max(slices.Max(s.Each)-s.Median, s.Median-slices.Min(s.Each)) / math.Abs(s.Median)
}

// Over makes the figures of a row from its samples.
func Over(samples []workloads.Sample) map[string]Stat {
	values := map[string]Stat{}
	for _, sample := range samples {
		for key, value := range sample {
			stat := values[key]
			stat.Each = append(stat.Each, value)
			values[key] = stat
		}
	}
	for key, stat := range values {
		stat.Median = median(stat.Each)
		stat.Capped = 2*len(values[workloads.Capped(key)].Each) >= len(stat.Each) // then the median is a capped value
		values[key] = stat
	}
	return values
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Find is a Lookup: the empty label means the first case that the peer was measured in.
func (t *Table) Find(peer, label, key string) (float64, bool) {
	for _, row := range t.Rows {
		if row.Peer == peer && (label == "" || row.Case == label) {
			stat, ok := row.Values[key]
			return stat.Median, ok
		}
	}
	return 0, false
}

// FileName is the file of the results, in the directory of the plots.
const FileName = "results.json"

// Load reads the results in a directory. Before the first run there are none.
func Load(dir string) (Results, error) {
	var r Results
	text, err := os.ReadFile(filepath.Join(dir, FileName)) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(text, &r)
	return r, err
}

// Save writes the results to a directory.
func (r *Results) Save(dir string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, FileName), append(text, '\n'), 0o600)
}

// Put adds a table, in place of an earlier table of its workload.
func (r *Results) Put(t Table) {
	i := slices.IndexFunc(r.Tables, func(old Table) bool { return old.Workload == t.Workload })
	if i < 0 {
		r.Tables = append(r.Tables, t)
		return
	}
	r.Tables[i] = t
}
