// Command mutants changes every condition, bound and step of the client's rules, of those of a
// quorum, and of the scripts, one at a time, and has the tests look for each change: the unit tests
// first, of scripts also those on a real server, and the explorer last. It lists the changes that
// no test finds. For each of them either a test is missing, or the change has no effect.
//
//	go run ./test/mutants               all; some hours on two cores
//	go run ./test/mutants -only hold.go those whose name begins so; several with commas between
//	go run ./test/mutants -only ballot/ those of a quorum's rules
//	go run ./test/mutants -every 10     a tenth of them
//	go run ./test/mutants -short        the explorer searches only the nearest states
//	go run ./test/mutants -units        run only the unit tests of the scripts: a quarter of the time
//	go run ./test/mutants -v            tell of each what found it
//	go run ./test/mutants -list         what there is to change
//
// The go command builds each mutant of the rules from the tree with one file replaced (its flag
// -overlay). For the scripts it builds test programs once, which read the scripts from a folder. So
// nothing is written to the tree.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
)

// short is whether the explorer searches only the nearest states, and units whether only the unit
// tests look for mutants of scripts.
var short, units bool

func main() {
	only := flag.String("only", "", "names that begin so: of files, or of files and lines; with commas between")
	every := flag.Int("every", 1, "of so many that follow one another, only one")
	list := flag.Bool("list", false, "list them, and run nothing")
	side := flag.Int("p", 2, "how many to run side by side")
	verbose := flag.Bool("v", false, "tell of each what found it, and not only of those that survive")
	flag.BoolVar(&units, "units", false, "of scripts, run only their unit tests")
	flag.BoolVar(&short, "short", false, "have the explorer search only the nearest states")
	flag.Parse()
	all, err := mutants()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var chosen []mutant
	matches := 0
	for name := range strings.SplitSeq(*only, ",") {
		for _, m := range all {
			if strings.HasPrefix(m.String(), name) {
				if matches%max(1, *every) == 0 {
					chosen = append(chosen, m)
				}
				matches++
			}
		}
	}
	if *list {
		for _, m := range chosen {
			fmt.Println(m)
		}
		return
	}
	survivors, err := look(chosen, *side, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

// mutants returns the mutants of the rules and those of the scripts. What ballot's state.go does is
// for the explorer only.
func mutants() ([]mutant, error) {
	rules, err := mutate("internal/rules", ".go", mutateGo)
	if err != nil {
		return nil, err
	}
	votes, err := mutate(ballot, ".go", mutateGo)
	if err != nil {
		return nil, err
	}
	votes = slices.DeleteFunc(votes, func(m mutant) bool { return filepath.Base(m.file) == "state.go" })
	scripts, err := mutate("lua", ".lua", mutateLua)
	if err != nil {
		return nil, err
	}
	parts, err := mutate("lua/parts", ".lua", mutateLua)
	return slices.Concat(rules, votes, scripts, parts), err
}

// look runs the tests against all mutants, tells of each that no test finds, or of each, and sums
// up. It stops when it is interrupted, or at the first error.
func look(all []mutant, side int, verbose bool) (survivors int, failed error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	programs, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	if slices.ContainsFunc(all, func(m mutant) bool { return m.suffix() == ".lua" }) {
		if err := build(ctx, programs); err != nil {
			return 0, err
		}
	}
	var mu sync.Mutex                // guards found, survivors and failed
	found := make(map[[2]string]int) // by the file, and by what found the mutant
	turns := make(chan mutant)
	var workers sync.WaitGroup
	for range side {
		workers.Go(func() {
			for m := range turns {
				by, test, err := m.foundBy(ctx, programs)
				mu.Lock()
				switch {
				case err != nil:
					failed = cmp.Or(failed, err)
					stop()
				case verbose:
					fmt.Println(m, " -- ", by, test)
				case by == survives:
					fmt.Println(m)
				}
				if err == nil {
					found[[2]string{m.file, by}]++
				}
				if by == survives {
					survivors++
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		if ctx.Err() != nil {
			break
		}
		turns <- m
	}
	close(turns)
	workers.Wait()
	sum(all, found)
	return survivors, cmp.Or(failed, ctx.Err())
}

// sum prints how many mutants of each file each layer has found.
func sum(all []mutant, found map[[2]string]int) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\t%s\t\n", strings.Join(layers, "\t"))
	for i, m := range all {
		if i > 0 && all[i-1].file == m.file {
			continue
		}
		fmt.Fprintf(table, "%s\t", m.file)
		for _, by := range layers {
			fmt.Fprintf(table, "%d\t", found[[2]string{m.file, by}])
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
}
