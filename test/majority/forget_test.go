package majority

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"testing"
)

// What forget drops changes nothing: of two worlds to which the same happens, one forgets and the
// other does not. All that may happen next is the same in both, and so is what is left when the
// other one forgets as well.
func TestWhatIsForgottenChangesNothing(t *testing.T) {
	histories := histories(400, 10_000, 20)
	for _, all := range [][]scenario{scenarios, longer, wide} {
		for _, sc := range all {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				for seed := range histories {
					alike(t, &sc, rand.New(rand.NewPCG(uint64(seed), 9)))
				}
			})
		}
	}
}

func alike(t *testing.T, sc *scenario, random *rand.Rand) {
	t.Helper()
	seed := maphash.MakeSeed()
	mine, its := &world{scenario: sc, state: sc.start()}, &world{scenario: sc, state: sc.start(), exact: true}
	var history []string
	for range farthest {
		ours, theirs := mine.chances(mine.moves(nil)), its.chances(its.moves(nil))
		if !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%v may happen, and %v if nothing is forgotten:\n%q", ours, theirs, history)
		}
		if len(ours) == 0 {
			break
		}
		v := ours[random.IntN(len(ours))]
		history = append(history, its.describe(v))
		mine.apply(v)
		its.apply(v)
		all := &world{scenario: sc, state: its.clone()}
		all.forget()
		if mine.hash(seed) != all.hash(seed) || (mine.fault == nil) != (its.fault == nil) {
			t.Fatalf("what was forgotten changes what is: %v %v\n%q\n%s\n%s", mine.fault, its.fault, history, text(mine), text(all))
		}
	}
}

func text(w *world) (text string) {
	for c := range w.calls {
		text += fmt.Sprintf("call %s: %+v %+v\n", label(int8(c)), w.calls[c].Ballot, w.calls[c])
	}
	return text + fmt.Sprintf("nodes: %+v\nair: %+v\nmessages: %+v\ntruth: %+v", w.nodes, w.air, w.pushes, w.truth)
}
