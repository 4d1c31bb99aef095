// Package nosy has errors of users' own types, as hooks, dialers and contexts return them.
package nosy

// Error returns an error with what err says that calls a function first, whatever it is asked. It
// is nil if err is.
func Error(err error, asked func()) error {
	if err == nil {
		return nil
	}
	return &asks{err, asked}
}

type asks struct {
	error
	asked func()
}

func (a *asks) Error() string { a.asked(); return a.error.Error() }
func (a *asks) Is(error) bool { a.asked(); return false }
func (a *asks) As(any) bool   { a.asked(); return false }
func (a *asks) Unwrap() error { a.asked(); return a.error }
