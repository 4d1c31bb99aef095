package locks

import (
	"context"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
)

// Candidate is a word that may complete a command line.
type Candidate struct {
	Word, About string
}

// Predict returns the names of the selected locks, for completion.
func (s *Selection) Predict(ctx context.Context, _ string) []Candidate {
	return s.Names(ctx, s.Kinds()...)
}

// Names returns the names of all locks of these kinds, for completion.
func (k *Keyspace) Names(ctx context.Context, kinds ...string) (all []Candidate) {
	k.Hurry()
	s, err := k.Open(kinds...)
	if err != nil {
		return nil
	}
	defer s.Close()
	s.Notices.Mute()
	for _, l := range s.Lockers {
		for state, err := range l.List(ctx) {
			if err != nil {
				return all
			}
			r := NewRecord(l.Kind, state)
			all = append(all, Candidate{state.Name, r.Kind + ", held by " + r.Holder.Who() + ", " + look.Count(r.Waiting) + " waiting"})
		}
	}
	return all
}
