package majority

import (
	"math/rand/v2"
	"time"
)

// farthest is more moves than any history has.
const farthest = 400

// wander follows histories at random, up to the first fault. It finds what is too far for search.
func wander(sc *scenario, histories int) *result {
	r, began := new(result), time.Now()
	for seed := 0; seed < histories && r.fault == nil; seed++ {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		w := &world{scenario: sc, state: sc.start()}
		r.history = r.history[:0]
		var list []move
		for step := 0; w.fault == nil; step++ {
			if step == farthest {
				w.fault = errCircle
				break
			}
			list = w.moves(list[:0])
			must := len(list)
			if must == 0 {
				w.rests()
			}
			if list = w.chances(list); len(list) == 0 || w.fault != nil {
				break
			}
			v := list[random.IntN(len(list))]
			if must > 0 && len(list) > must && random.IntN(4) > 0 {
				v = list[random.IntN(must)]
			}
			r.transitions++
			r.history = append(r.history, w.describe(v))
			w.apply(v)
		}
		r.fault = w.fault
	}
	r.cut, r.took = true, time.Since(began)
	return r
}
