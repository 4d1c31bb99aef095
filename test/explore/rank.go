package explore

func eachToken(k *keys, f func(*int32)) {
	f(&k.token)
	f(&k.last)
}

func eachPlace(k *keys, f func(*int32)) {
	for i := range k.queue[:k.length] {
		f(&k.queue[i].place)
	}
}

func eachAsked(r *request, f func(*int32)) {
	for i := range r.of[:r.n] {
		f(&r.of[i].place)
	}
}

// rank renumbers values of which only the order counts: the i-th smallest becomes i*step. A value
// that is a little larger than one of them stays a little larger.
type rank struct {
	values [40]int32
	n      int
}

const (
	step  = 10
	fresh = 1 << 20 // tokens and places from here on were given just now
	newly = 1 << 28 // an inner number that was not there before
)

func ranks(each func(func(*int32))) *rank {
	r := new(rank)
	each(func(v *int32) {
		if *v != 0 {
			r.add(*v)
		}
	})
	return r
}

func (r *rank) add(v int32) {
	i := 0
	for i < r.n && r.values[i] < v {
		i++
	}
	if i < r.n && r.values[i] == v {
		return
	}
	copy(r.values[i+1:r.n+1], r.values[i:r.n])
	r.values[i] = v
	r.n++
}

func (r *rank) inner(v *int32) {
	for i := range r.n {
		if r.values[i] == *v {
			*v = int32(i+1) * step
			return
		}
	}
}

func (r *rank) outer(v *int32, first int32) {
	switch {
	case *v == 0:
	case *v >= newly:
		*v = first + *v - newly
	default:
		*v = r.values[*v/step-1] + *v%step
	}
}
