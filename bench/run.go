package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
	"github.com/fairlock/locks/bench/report"
	"github.com/fairlock/locks/bench/workloads"
)

// atMost is how long one run of one peer may take, beyond the time that it is asked to watch
// or to wait for the next holder.
const atMost = 3 * time.Minute

// run is one call of the program.
type run struct {
	scale     workloads.Scale
	workloads []workloads.Workload
	peers     []peers.Peer
	cases     []string // their labels
	out       string   // "": nothing is written
	results   *report.Results

	etcd    host.Server
	count   int // of the runs of one peer
	failed  []error
	missing map[string]string // kinds of servers, and peers, that are not installed, and why
}

// choose takes the workloads, peers and cases of those names, separated by commas; all if there are
// none. What starts slowly is in a small run only by its name.
func (r *run) choose(some, with, of string) error {
	var err error
	r.workloads, err = named(workloads.All(), some, func(w workloads.Workload) string { return w.Name })
	if err != nil {
		return err
	}
	r.peers, err = named(peers.All(), with, func(p peers.Peer) string { return p.Name })
	if with == "" && r.scale.Name != workloads.Full.Name {
		r.peers = slices.DeleteFunc(r.peers, func(p peers.Peer) bool { return p.Slow })
	}
	if err != nil {
		return err
	}
	var labels []string
	for _, w := range r.workloads {
		for _, c := range w.Cases(r.scale) {
			labels = append(labels, c.Label)
		}
	}
	r.cases, err = named(labels, of, func(label string) string { return label })
	return err
}

func named[T any](all []T, names string, name func(T) string) ([]T, error) {
	if names == "" {
		return all, nil
	}
	var chosen []T
	for n := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == n })
		if i < 0 {
			var known []string
			for _, t := range all {
				known = append(known, name(t))
			}
			return nil, fmt.Errorf("%q is none of %s", n, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// all measures. It prints and writes each table when the table is done.
func (r *run) all(ctx context.Context) error {
	r.missing = map[string]string{}
	if _, err := host.RedisProgram(); err != nil {
		return err
	}
	if _, err := host.EtcdProgram(); err != nil {
		r.missing[peers.Etcd] = err.Error()
		fmt.Fprintf(os.Stderr, "*** %v: nothing is measured of etcd. Debian's package is etcd-server. ***\n", err)
	}
	for _, p := range r.peers {
		if p.Missing == nil {
			continue
		}
		if err := p.Missing(); err != nil {
			r.missing[p.Name] = err.Error()
			fmt.Fprintf(os.Stderr, "*** %s is left out: %v ***\n", p.Name, err)
		}
	}
	defer func() {
		if r.etcd != nil {
			r.etcd.Kill()
		}
	}()
	for _, w := range r.workloads {
		began := time.Now()
		table, err := r.measure(ctx, w)
		if err != nil {
			return err
		}
		fmt.Printf("## %s\n\n%s\n(%s)\n\n", table.Title, table.Markdown(), time.Since(began).Round(time.Second))
		if err := r.keep(table); err != nil {
			return err
		}
	}
	return errors.Join(r.failed...)
}

func (r *run) keep(table report.Table) error {
	if r.out == "" {
		return nil
	}
	r.results.Put(table)
	if err := r.results.Save(r.out); err != nil {
		return err
	}
	return table.Draw(r.out)
}

// turn is one peer in one case of a workload.
type turn struct {
	of      workloads.Case
	row     report.Row
	samples []workloads.Sample
}

// measure gives each peer its turn in each case, as often as the run repeats.
func (r *run) measure(ctx context.Context, w workloads.Workload) (report.Table, error) {
	table := report.Table{
		Workload: w.Name, Title: w.Title, About: w.About, Scale: r.scale.Name, Repeats: r.scale.Repeats,
		Machine: machine(), Columns: w.Columns, Plot: w.Plot, Log: w.Log,
	}
	turns := r.turns(w)
	for i := range r.scale.Repeats {
		for j := range turns {
			if i%2 == 1 { // reverses the order: the machine is not the same for the first and the last
				j = len(turns) - 1 - j
			}
			t := &turns[j]
			if t.row.Why != "" || t.of.Repeats > 0 && i >= t.of.Repeats {
				continue
			}
			sample, err := r.once(ctx, w, t.of, t.row.Peer)
			if ctx.Err() != nil {
				return table, ctx.Err()
			}
			if err != nil {
				r.failed = append(r.failed, err)
				first, _, _ := strings.Cut(err.Error(), "\n") // the rest may be different for each worker
				t.row.Why = "failed: " + first
				continue
			}
			t.samples = append(t.samples, sample)
		}
	}
	var used []peers.Peer
	for _, t := range turns {
		if t.samples != nil {
			t.row.Values = report.Over(t.samples)
		}
		table.Rows = append(table.Rows, t.row)
		if p, _ := peers.Find(t.row.Peer); !slices.ContainsFunc(used, func(u peers.Peer) bool { return u.Name == p.Name }) {
			used = append(used, p)
		}
	}
	table.Versions = versions(used)
	table.Goals = w.Goals(table.Find)
	return table, nil
}

// turns returns one turn for each peer that the workload is for, with the reason if the peer cannot
// do the workload.
func (r *run) turns(w workloads.Workload) (all []turn) {
	for _, c := range w.Cases(r.scale) {
		if !slices.Contains(r.cases, c.Label) {
			continue
		}
		for _, p := range r.peers {
			c := c
			if p.Slow {
				c.Repeats = 1
			}
			why, ok := p.Does(w.Name, c.Size)
			if missing := cmp.Or(r.missing[p.Server], r.missing[p.Name]); ok && missing != "" {
				why, ok = missing, false
			}
			if ok || why != "" {
				all = append(all, turn{of: c, row: report.Row{Case: c.Label, Peer: p.Name, Floor: p.Floor, Why: why}})
			}
		}
	}
	return all
}

// once measures one peer on a server of its own. An etcd server is kept, because it takes seconds
// to start.
func (r *run) once(ctx context.Context, w workloads.Workload, c workloads.Case, name string) (workloads.Sample, error) {
	peer, _ := peers.Find(name)
	fmt.Fprintf(os.Stderr, "\r\033[K%s, %s: %s", w.Name, c.Label, name)
	defer fmt.Fprint(os.Stderr, "\r\033[K")
	server, err := r.server(peer.Server)
	if err != nil {
		return nil, err
	}
	if server != r.etcd {
		defer server.Kill()
	}
	r.count++
	patience := atMost + r.scale.Window + r.scale.Cap
	if peer.Slow {
		patience *= 3
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.Measure(ctx, &workloads.Bench{Peer: peer, Case: c, Scale: r.scale, Server: server, Key: fmt.Sprintf("key-%d", r.count)})
}

func (r *run) server(kind string) (host.Server, error) {
	if kind != peers.Etcd {
		return host.Serve(kind)
	}
	if r.etcd == nil {
		server, err := host.Serve(kind)
		if err != nil {
			return nil, err
		}
		r.etcd = server
	}
	return r.etcd, nil
}

// plotsSeenFrom returns the path from a document to the directory of the plots.
func plotsSeenFrom(document, out string) string {
	relative, err := filepath.Rel(filepath.Dir(document), out)
	if err != nil {
		return out
	}
	return filepath.ToSlash(relative)
}
