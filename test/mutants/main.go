// Command mutants changes every condition, bound and step of the client's rules and of the scripts,
// one at a time, and has the tests look for each change: the unit tests first, then the explorer.
// It lists the changes that no test finds. For each of them either a test is missing, or the change
// has no effect.
//
//	go run ./test/mutants               all; some hours on two cores
//	go run ./test/mutants -only hold.go those whose name begins so
//	go run ./test/mutants -every 10     a tenth of them
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
)

func main() {
	only := flag.String("only", "", "names that begin so: of a file, or of a file and a line")
	every := flag.Int("every", 1, "of so many that follow one another, only one")
	list := flag.Bool("list", false, "list them, and run nothing")
	side := flag.Int("p", 2, "how many to run side by side")
	flag.Parse()
	all, err := mutants()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var chosen []mutant
	matches := 0
	for _, m := range all {
		if strings.HasPrefix(m.String(), *only) {
			if matches%max(1, *every) == 0 {
				chosen = append(chosen, m)
			}
			matches++
		}
	}
	if *list {
		for _, m := range chosen {
			fmt.Println(m)
		}
		return
	}
	survivors, err := look(chosen, *side)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

// mutants returns the mutants of the rules and those of the scripts.
func mutants() ([]mutant, error) {
	rules, err := mutate("internal/rules", ".go", mutateGo)
	if err != nil {
		return nil, err
	}
	scripts, err := mutate("lua", ".lua", mutateLua)
	if err != nil {
		return nil, err
	}
	parts, err := mutate("lua/parts", ".lua", mutateLua)
	return slices.Concat(rules, scripts, parts), err
}

// look runs the tests against all mutants, tells of each that no test finds, and sums up. It stops
// when it is interrupted, or at the first error.
func look(all []mutant, side int) (survivors int, failed error) {
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
	found := make(map[[2]string]int) // by the suffix of the file, and by what found the mutant
	turns := make(chan mutant)
	var workers sync.WaitGroup
	for range side {
		workers.Go(func() {
			for m := range turns {
				by, err := m.foundBy(ctx, programs)
				mu.Lock()
				switch found[[2]string{m.suffix(), by}]++; {
				case err != nil:
					failed = cmp.Or(failed, err)
					stop()
				case by == survives:
					survivors++
					fmt.Println(m)
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
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, suffix := range []string{".go", ".lua"} {
		for _, by := range []string{stillborn, byUnits, byLockers, byExplorer, survives} {
			fmt.Fprintf(table, "%s\t%s\t%d\t\n", suffix, by, found[[2]string{suffix, by}])
		}
	}
	_ = table.Flush()
	return survivors, cmp.Or(failed, ctx.Err())
}
