//go:build !unix

package java

// exclusive does nothing here: processes that start together each do the work, and one keeps it.
func exclusive(string) (release func(), err error) { return func() {}, nil }
